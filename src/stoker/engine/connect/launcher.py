"""Starts runners: each is forked from the zygote and opens a session of its own at the server.

A session begins as a copy of a template, which holds the settings that a client cannot change
later. Each runner has a scheduler pool of its own: Spark shares its cores fairly between pools.
"""

import asyncio
import itertools
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace

from stoker.aio.race import StoppedFirst, run_unless
from stoker.core.errors import StokerError, Unavailable
from stoker.core.ids import Ids
from stoker.engine.connect.server import SparkServer, end_if_spark_stopped
from stoker.engine.connect.supervised import Supervised
from stoker.engine.connect.zygote_client import ForkedProcess, ZygoteClient
from stoker.engine.options import EngineOptions
from stoker.engine.protocol import Leave, NotReady, Prepare, Ready, SessionEnded, WarmUp

_DEATH_NOTICE_SECONDS = 2.0
_LEAVE_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class WarmRunner:
    process: ForkedProcess
    server: SparkServer
    session_id: str
    spark_version: str
    is_warm: bool = True
    """Whether its session has run a query: the first one is slow."""
    tasks: int = 1
    """How many tasks its process has run, including the next one."""
    owner: str | None = None
    """Owner of the jobs to which these tasks belong; None if it has run none."""

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive and not self.server.died.done()

    def for_another_task(self) -> "WarmRunner":
        """The same runner with its session, in which nothing of the last task is left."""
        return replace(self, is_warm=True, tasks=self.tasks + 1)

    async def leave(self) -> SessionEnded | None:
        """Let the idle runner end its session and itself; None if the session may still be there.

        If it were simply killed, the session would stay until the server ends.
        """
        answer: object = None
        if self.is_alive:
            with suppress(TimeoutError, StoppedFirst):
                async with asyncio.timeout(_LEAVE_SECONDS):
                    await self.process.send(Leave())
                    answer = await run_unless(self.server.died, self.process.receive())
        await self.process.kill()
        return answer if isinstance(answer, SessionEnded) else None


class ServerLost(Unavailable):
    """The zygote or the Spark server died meanwhile; another try finds its successor."""


class _Templates:
    """The shared template sessions of one server: one for each scheduler pool of Spark.

    Runners derive the id of the dedicated template from that of the shared one.
    """

    def __init__(self, server: SparkServer, ids: Ids) -> None:
        self.server = server
        self._ids = ids
        self._by_pool: dict[str, str] = {}
        self._created: set[str] = set()

    def for_pool(self, pool: str) -> str:
        if pool not in self._by_pool:
            self._by_pool[pool] = new_session_id(self._ids)
        return self._by_pool[pool]

    def is_first(self, template: str) -> bool:
        return self.is_new(template) and template == next(iter(self._by_pool.values()))

    def is_new(self, template: str) -> bool:
        return template not in self._created

    def mark_created(self, template: str) -> None:
        self._created.add(template)


def new_session_id(ids: Ids) -> str:
    return str(uuid.UUID(hex=ids.nonce(), version=4))


class RunnerLauncher:
    def __init__(
        self,
        options: EngineOptions,
        server: Supervised[SparkServer],
        zygote: Supervised[ZygoteClient],
        ids: Ids,
    ) -> None:
        self._options = options
        self._server = server
        self._zygote = zygote
        self._ids = ids
        self._scheduler_pools: dict[ForkedProcess, int] = {}
        """Numbers of the scheduler pools in use. They are reused, since Spark forgets none."""
        self._templates: _Templates | None = None
        self._spark_version = ""

    async def launch(self, *, warm: bool) -> WarmRunner | StokerError:
        """Start a runner with a new session at the current server."""
        try:
            server = await self._server.get()
        except StokerError as error:
            return error
        return await self._start(server, None, warm=warm)

    async def attach(self, server: SparkServer, session_id: str) -> WarmRunner | StokerError:
        """Start a runner in the session of another runner, which died."""
        return await self._start(server, session_id, warm=False)

    async def open_new_session(self, runner: WarmRunner) -> WarmRunner | StokerError:
        """Open a new session in a reusable runner, which has ended its previous one."""
        opened = await self._open_session(runner.process, runner.server, None, warm=False)
        if isinstance(opened, StokerError):
            return opened
        return replace(opened, tasks=runner.tasks + 1, owner=runner.owner)

    async def warm_up(self, runner: WarmRunner) -> WarmRunner | StokerError:
        answer = await self._ask(runner.process, runner.server, WarmUp())
        return answer if isinstance(answer, StokerError) else replace(runner, is_warm=True)

    async def _start(
        self, server: SparkServer, session_id: str | None, *, warm: bool
    ) -> WarmRunner | StokerError:
        try:
            process = await self._fork()
        except StokerError as error:
            return error
        return await self._open_session(process, server, session_id, warm=warm)

    async def _open_session(
        self, process: ForkedProcess, server: SparkServer, session_id: str | None, *, warm: bool
    ) -> WarmRunner | StokerError:
        session = session_id or new_session_id(self._ids)
        pool = self._scheduler_pool(process)
        templates = self._templates_at(server) if session_id is None else None
        template = templates.for_pool(pool) if templates is not None else ""
        shares_sessions = self._options.runner_tasks > 1
        prepare = Prepare(
            url=server.url(session),
            ui=server.ui,
            scheduler_pool=pool,
            template=template if shares_sessions else "",
            is_template_new=shares_sessions
            and templates is not None
            and templates.is_new(template),
            warm=warm,
            first=templates is not None and templates.is_first(template),
            report_version=not self._spark_version,
            server_pid=server.pid,
            closed_marker=str(server.watchdog.closed_marker(session)),
        )
        answer = await self._ask(process, server, prepare)
        if isinstance(answer, StokerError):
            return answer
        if templates is not None:
            templates.mark_created(template)
        self._spark_version = answer.spark_version or self._spark_version
        return WarmRunner(
            process=process,
            server=server,
            session_id=session,
            spark_version=self._spark_version,
            is_warm=warm,
        )

    def _templates_at(self, server: SparkServer) -> _Templates:
        if self._templates is None or self._templates.server is not server:
            self._templates = _Templates(server, self._ids)
        return self._templates

    async def _ask(
        self, process: ForkedProcess, server: SparkServer, message: Prepare | WarmUp
    ) -> Ready | StokerError:
        """Send a message and wait for Ready; kill a runner that does not give this answer."""
        try:
            async with asyncio.timeout(self._options.runner_start_timeout.total_seconds()):
                await process.send(message)
                answer = await run_unless(server.died, process.receive())
        except TimeoutError:
            await process.kill()
            return Unavailable("a runner could not open its Spark session in time")
        except StoppedFirst:
            await process.kill()
            return ServerLost("the Spark server died while a runner connected to it")
        except asyncio.CancelledError:
            await process.kill()
            raise
        match answer:
            case Ready():
                return answer
            case NotReady(reason=reason):
                await process.kill()
                failure = f"a runner could not open its Spark session: {reason}"
                # A server that is about to end refuses connections before its death is known.
                lost = await end_if_spark_stopped(server)
                return ServerLost(failure) if lost else Unavailable(failure)
            case _:
                ended = await process.kill()
                return ServerLost(f"a runner ended before it was ready: {ended.describe()}")

    async def _fork(self) -> ForkedProcess:
        zygote = await self._zygote.get()
        try:
            return await zygote.fork()
        except Unavailable as error:
            # Most likely the zygote has just died, and its successor is about to start.
            await asyncio.wait([zygote.died], timeout=_DEATH_NOTICE_SECONDS)
            if zygote.died.done():
                raise ServerLost(error.message) from error
            raise

    def _scheduler_pool(self, process: ForkedProcess) -> str:
        """A pool that no other live runner uses: Spark shares its cores fairly between pools."""
        pools = self._scheduler_pools
        if process not in pools:
            used = set(pools.values())
            pools[process] = next(number for number in itertools.count() if number not in used)
            process.exited.add_done_callback(lambda _: pools.pop(process))
        return f"stoker-{pools[process]}"
