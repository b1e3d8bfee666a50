"""The connect engine, without processes."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stoker.aio.clock import system_wall_clock
from stoker.core.errors import Unavailable
from stoker.core.ids import Ids
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.java import Java
from stoker.engine.options import EngineOptions
from stoker.engine.server_config import ServerFiles


class SlowPool:
    """A pool whose one runner is ready when the test says so."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.process = self
        self.is_killed = False

    async def take(self, owner: str) -> "SlowPool":
        await self.ready.wait()
        return self

    async def kill(self) -> None:
        self.is_killed = True


async def test_a_launch_that_is_under_way_at_the_close_starts_no_task() -> None:
    engine = ConnectEngine(
        EngineOptions(),
        Java(home=Path("/java"), version=17),
        ServerFiles(work=Path("/work"), logs=Path("/logs")),
        ids=Ids(),
        wall_clock=system_wall_clock,
    )
    pool = SlowPool()
    engine._pool = cast(Any, pool)
    task = cast(Any, SimpleNamespace(owner="ana"))
    launching = asyncio.create_task(engine.launch(task, lambda _event: None))
    await asyncio.sleep(0)
    await engine.close()
    pool.ready.set()
    with pytest.raises(Unavailable, match="closed"):
        await launching
    assert pool.is_killed
