"""Spare runners: who may be taken, and who may not."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

from stoker.core.ids import Ids
from stoker.engine.options import EngineOptions
from stoker.engine.pool import RunnerPool, WarmRunner
from stoker.testing.virtual_time import run_virtual


@dataclass(eq=False)
class Server:
    died: "asyncio.Future[str]" = field(default_factory=asyncio.Future)


class SlowToDie:
    """Its kill takes a second, in which it still looks alive."""

    def __init__(self) -> None:
        self.is_alive = True
        self.is_doomed = False
        self.exited: asyncio.Future[str] = asyncio.Future()

    async def kill(self) -> str:
        self.is_doomed = True
        await asyncio.sleep(1)
        self.is_alive = False
        return "killed"


class Servers:
    def __init__(self, current: Server) -> None:
        self.current = current

    def is_let_go(self, _server: Server) -> bool:
        return False


async def spare(server: Server) -> "asyncio.Task[WarmRunner]":
    async def ready() -> WarmRunner:
        return WarmRunner(
            process=cast(Any, SlowToDie()),
            server=cast(Any, server),
            session_id="session",
            spark_version="4.3.0",
        )

    task = asyncio.create_task(ready())
    await task
    return task


def test_a_spare_that_is_about_to_be_killed_is_not_taken() -> None:
    async def main() -> None:
        old, new = Server(), Server()
        pool = RunnerPool(EngineOptions(), cast(Any, Servers(new)), cast(Any, None), Ids())
        pool._spares = cast(Any, [await spare(old), await spare(new)])
        renewing = asyncio.create_task(pool.renew())
        await asyncio.sleep(0.5)
        taken = await pool.take()
        assert not cast(Any, taken.process).is_doomed
        assert taken.server is cast(Any, new)
        await renewing

    run_virtual(main)


def test_a_runner_is_replaced_when_its_task_has_ended_or_takes_long() -> None:
    async def main() -> None:
        server = Server()
        options = EngineOptions(replenish_delay=timedelta(seconds=10))
        pool = RunnerPool(options, cast(Any, Servers(server)), cast(Any, None), Ids())
        pool._spares = cast(Any, [await spare(server), await spare(server)])
        loop = asyncio.get_running_loop()

        short = await pool.take()
        loop.call_later(3, short.process.exited.set_result, "exit code 0")
        began = loop.time()
        await pool._until_calm()
        assert 3 <= loop.time() - began < 4

        await pool.take()
        began = loop.time()
        await pool._until_calm()
        assert 10 <= loop.time() - began < 11

    run_virtual(main)
