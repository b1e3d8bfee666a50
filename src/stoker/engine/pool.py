"""Runner processes that stand ready, each with a Spark session that has run a query."""

import asyncio
import itertools
import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from stoker.core.errors import StartupFailed, StokerError, Unavailable
from stoker.core.ids import Ids
from stoker.engine.kept import Kept
from stoker.engine.options import EngineOptions
from stoker.engine.runner_protocol import NotReady, Prepare, Ready
from stoker.engine.server import SparkServer
from stoker.engine.waiting import Stopped, unless
from stoker.engine.zygote_link import ForkedProcess, ZygoteLink

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class WarmRunner:
    process: ForkedProcess
    server: SparkServer
    session_id: str
    spark_version: str

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive and not self.server.died.done()


_LOOK_AGAIN_SECONDS = 0.1
_DEATH_NOTICE_SECONDS = 2.0
_BREATH_SECONDS = 0.1
"""After the end of a task, for those who are still to learn of it."""

Spare = asyncio.Task[WarmRunner | StokerError]


class RunnerPool:
    def __init__(
        self,
        options: EngineOptions,
        server: Kept[SparkServer],
        zygote: Kept[ZygoteLink],
        ids: Ids,
    ) -> None:
        self._options = options
        self._server = server
        self._zygote = zygote
        self._ids = ids
        self._spares: list[Spare] = []
        self._taken = asyncio.Event()
        self._in_use: set[asyncio.Future[str]] = set()
        """The ends of runners that were taken."""
        self._pools: set[int] = set()
        """Numbers of Spark's scheduler pools in use: a few, since Spark forgets none of them."""
        self._monitored: SparkServer | None = None
        """The server whose monitoring was asked for the first time, which takes seconds."""

    async def take(self) -> WarmRunner:
        """A warm runner, ready at once if there is a spare; raises StokerError if none can be."""
        lost_servers = 0
        while True:
            # What failed in the background, perhaps long ago, says nothing about now.
            self._spares = [spare for spare in self._spares if not _has_failed(spare)]
            spare = self._spares.pop(0) if self._spares else self._begin_preparing(hurried=True)
            try:
                runner = await asyncio.shield(spare)
            except asyncio.CancelledError:
                self._spares.insert(0, spare)
                raise
            finally:
                self._taken.set()
            if isinstance(runner, StokerError):
                lost_servers += 1
                if not isinstance(runner, _ServerLost) or lost_servers > 3:
                    raise runner
            elif runner.is_alive and not self._server.is_let_go(runner.server):
                self._in_use.add(runner.process.exited)
                runner.process.exited.add_done_callback(self._in_use.discard)
                return runner
            else:
                await runner.process.kill()

    async def renew(self) -> None:
        """Let go of spares at a server that is not the current one any more."""
        await self._dismiss(lambda runner: runner.server is not self._server.current)
        self._taken.set()

    async def _dismiss(self, is_useless: Callable[[WarmRunner], bool]) -> None:
        """Out of the list first: nobody may take one that is about to be killed."""
        useless: list[WarmRunner] = []
        kept: list[Spare] = []
        for spare in self._spares:
            runner = spare.result() if spare.done() else None
            if isinstance(runner, WarmRunner) and is_useless(runner):
                useless.append(runner)
            else:
                kept.append(spare)
        self._spares = kept
        for runner in useless:
            await runner.process.kill()

    async def attach(self, server: SparkServer, session_id: str) -> WarmRunner | StokerError:
        """A runner in the session of another one, which died."""
        return await self._prepare(server, session_id)

    async def wait_until_warm(self) -> str:
        """The version of Spark, as soon as a runner has spoken with it."""
        while True:
            spare = self._spares[0] if self._spares else None
            if spare is None:
                await self._server.get()
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                continue
            runner = await asyncio.shield(spare)
            if isinstance(runner, WarmRunner):
                return runner.spark_version
            if isinstance(runner, StartupFailed):
                raise runner
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def run(self) -> None:
        """Keeps the number of spares; ends them when cancelled."""
        try:
            while True:
                # While the server is down, nothing can be prepared.
                server = await self._when_up()
                self._top_up()
                await self._until_taken_or_lost(server)
                await self._until_calm()
        finally:
            for spare in self._spares:
                spare.cancel()
            await asyncio.gather(*self._spares, return_exceptions=True)

    async def _when_up(self) -> SparkServer:
        while True:
            try:
                return await self._server.get()
            except StokerError:
                await asyncio.sleep(self._options.max_restart_delay.total_seconds())

    def _top_up(self) -> None:
        self._spares = [spare for spare in self._spares if not _is_spoilt(spare)]
        while len(self._spares) < self._options.warm_runners:
            self._spares.append(self._begin_preparing())

    async def _until_taken_or_lost(self, server: SparkServer) -> None:
        self._taken.clear()
        try:
            await unless(server.died, self._taken.wait())
        except Stopped:
            await self._dismiss(lambda runner: runner.server is server)

    async def _until_calm(self) -> None:
        """To warm up a runner takes what a short task needs itself: it is left alone, not for long.

        Whoever finds no spare meanwhile has one made at once.
        """
        patience = self._options.replenish_delay.total_seconds()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._in_use:
                    await asyncio.wait(self._in_use, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(min(_BREATH_SECONDS, patience))

    def _begin_preparing(self, *, hurried: bool = False) -> Spare:
        return asyncio.create_task(self._prepare(hurried=hurried), name="prepare-runner")

    async def _prepare(
        self,
        server: SparkServer | None = None,
        session_id: str | None = None,
        *,
        hurried: bool = False,
    ) -> WarmRunner | StokerError:
        """In a new session of the current server, or in one that is there.

        When somebody waits for it, a query to warm it up would only make it later.
        """
        try:
            server = server or await self._server.get()
            process = await self._fork()
        except StokerError as error:
            return error
        session = session_id or str(uuid.UUID(hex=self._ids.nonce(), version=4))
        prepare = Prepare(
            url=server.url(session),
            ui=server.ui,
            scheduler_pool=self._scheduler_pool(process),
            warm=session_id is None and not hurried,
            first=server is not self._monitored,
            server_pid=server.pid,
            closed_mark=str(server.warden.closed_mark(session)),
        )
        self._monitored = server
        try:
            async with asyncio.timeout(self._options.runner_start_timeout.total_seconds()):
                await process.send(prepare)
                answer = await unless(server.died, process.receive())
        except TimeoutError:
            await process.kill()
            return Unavailable("a runner could not open its Spark session in time")
        except Stopped:
            await process.kill()
            return _ServerLost("the Spark server died while a runner connected to it")
        except asyncio.CancelledError:
            await process.kill()
            raise
        match answer:
            case Ready(spark_version=version):
                return WarmRunner(
                    process=process, server=server, session_id=session, spark_version=version
                )
            case NotReady(reason=reason):
                await process.kill()
                return Unavailable(f"a runner could not open its Spark session: {reason}")
            case _:
                ending = await process.kill()
                return _ServerLost(f"a runner ended before it was ready: {ending}")

    async def _fork(self) -> ForkedProcess:
        zygote = await self._zygote.get()
        try:
            return await zygote.fork()
        except Unavailable as error:
            # Most likely it has just died, and another one will be there in a moment.
            await asyncio.wait([zygote.died], timeout=_DEATH_NOTICE_SECONDS)
            if zygote.died.done():
                raise _ServerLost(error.message) from error
            raise

    def _scheduler_pool(self, process: ForkedProcess) -> str:
        """One that no other living runner has: between pools Spark shares its cores fairly."""
        number = next(number for number in itertools.count() if number not in self._pools)
        self._pools.add(number)
        process.exited.add_done_callback(lambda _: self._pools.discard(number))
        return f"stoker-{number}"


class _ServerLost(Unavailable):
    """What the runner was made from is gone; another try will find the next one."""


def _has_failed(spare: Spare) -> bool:
    return spare.done() and isinstance(spare.result(), StokerError)


def _is_spoilt(spare: Spare) -> bool:
    if not spare.done():
        return False
    runner = spare.result()
    return isinstance(runner, StokerError) or not runner.is_alive
