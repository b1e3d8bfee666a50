"""Making a runner ready: forked, with a session of its own at the server."""

import asyncio
import itertools
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace

from stoker.core.errors import StokerError, Unavailable
from stoker.core.ids import Ids
from stoker.engine.connect.server import SparkServer
from stoker.engine.connect.supervised import Kept
from stoker.engine.connect.waiting import Stopped, unless
from stoker.engine.connect.zygote_client import ForkedProcess, ZygoteLink
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
    """Its session has run a query; the first one takes long."""
    tasks: int = 1
    """That its process may have been given until it ends this one, which it waits for."""

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive and not self.server.died.done()

    def for_another_task(self) -> "WarmRunner":
        """In its session, which has run a query and nothing is left in."""
        return replace(self, is_warm=True, tasks=self.tasks + 1)

    async def leave(self) -> SessionEnded | None:
        """It ends its session, in which nothing runs, and itself; None if the session may be left.

        Killed without a word, it would leave that to the server for as long as it lives.
        """
        answer: object = None
        if self.is_alive:
            with suppress(TimeoutError, Stopped):
                async with asyncio.timeout(_LEAVE_SECONDS):
                    await self.process.send(Leave())
                    answer = await unless(self.server.died, self.process.receive())
        await self.process.kill()
        return answer if isinstance(answer, SessionEnded) else None


class ServerLost(Unavailable):
    """What the runner was made from is gone; another try will find the next one."""


class _Templates:
    """The sessions at one server that others are copies of: one for each of Spark's pools."""

    def __init__(self, server: SparkServer, ids: Ids) -> None:
        self.server = server
        self._ids = ids
        self._of_pools: dict[str, str] = {}
        self._made: set[str] = set()

    def of(self, pool: str) -> str:
        if pool not in self._of_pools:
            self._of_pools[pool] = new_session_id(self._ids)
        return self._of_pools[pool]

    def is_first(self, template: str) -> bool:
        return self.is_new(template) and template == next(iter(self._of_pools.values()))

    def is_new(self, template: str) -> bool:
        return template not in self._made

    def was_made(self, template: str) -> None:
        self._made.add(template)


def new_session_id(ids: Ids) -> str:
    return str(uuid.UUID(hex=ids.nonce(), version=4))


class RunnerMaker:
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
        self._scheduler_pools: dict[ForkedProcess, int] = {}
        """Numbers of Spark's own pools in use: a few, since Spark forgets none of them."""
        self._templates: _Templates | None = None
        self._spark_version = ""

    async def make(self, *, warm: bool) -> WarmRunner | StokerError:
        """In a new session of the current server."""
        try:
            server = await self._server.get()
        except StokerError as error:
            return error
        return await self._prepare(server, None, warm=warm)

    async def attach(self, server: SparkServer, session_id: str) -> WarmRunner | StokerError:
        """In the session of another one, which died."""
        return await self._prepare(server, session_id, warm=False)

    async def open_another(self, runner: WarmRunner) -> WarmRunner | StokerError:
        """In a new session, the process of a runner that is as new and has ended its own."""
        opened = await self._open(runner.process, runner.server, None, warm=False)
        if isinstance(opened, StokerError):
            return opened
        return replace(opened, tasks=runner.tasks + 1)

    async def warm_up(self, runner: WarmRunner) -> WarmRunner | StokerError:
        answer = await self._answer(runner.process, runner.server, WarmUp())
        return answer if isinstance(answer, StokerError) else replace(runner, is_warm=True)

    async def _prepare(
        self, server: SparkServer, session_id: str | None, *, warm: bool
    ) -> WarmRunner | StokerError:
        try:
            process = await self._fork()
        except StokerError as error:
            return error
        return await self._open(process, server, session_id, warm=warm)

    async def _open(
        self, process: ForkedProcess, server: SparkServer, session_id: str | None, *, warm: bool
    ) -> WarmRunner | StokerError:
        session = session_id or new_session_id(self._ids)
        pool = self._scheduler_pool(process)
        templates = self._templates_at(server) if session_id is None else None
        template = templates.of(pool) if templates is not None else ""
        shares_sessions = self._options.runner_tasks > 1
        prepare = Prepare(
            url=server.url(session),
            ui=server.ui,
            scheduler_pool=pool,
            template=template if shares_sessions else "",
            template_is_new=shares_sessions
            and templates is not None
            and templates.is_new(template),
            warm=warm,
            first=templates is not None and templates.is_first(template),
            tell_version=not self._spark_version,
            server_pid=server.pid,
            closed_mark=str(server.warden.closed_mark(session)),
        )
        answer = await self._answer(process, server, prepare)
        if isinstance(answer, StokerError):
            return answer
        if templates is not None:
            templates.was_made(template)
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

    async def _answer(
        self, process: ForkedProcess, server: SparkServer, message: Prepare | WarmUp
    ) -> Ready | StokerError:
        """To a question; a runner that does not answer as it should is killed."""
        try:
            async with asyncio.timeout(self._options.runner_start_timeout.total_seconds()):
                await process.send(message)
                answer = await unless(server.died, process.receive())
        except TimeoutError:
            await process.kill()
            return Unavailable("a runner could not open its Spark session in time")
        except Stopped:
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
                return Unavailable(f"a runner could not open its Spark session: {reason}")
            case _:
                ending = await process.kill()
                return ServerLost(f"a runner ended before it was ready: {ending}")

    async def _fork(self) -> ForkedProcess:
        zygote = await self._zygote.get()
        try:
            return await zygote.fork()
        except Unavailable as error:
            # Most likely it has just died, and another one will be there in a moment.
            await asyncio.wait([zygote.died], timeout=_DEATH_NOTICE_SECONDS)
            if zygote.died.done():
                raise ServerLost(error.message) from error
            raise

    def _scheduler_pool(self, process: ForkedProcess) -> str:
        """One that no other living runner has: between pools Spark shares its cores fairly."""
        pools = self._scheduler_pools
        if process not in pools:
            used = set(pools.values())
            pools[process] = next(number for number in itertools.count() if number not in used)
            process.exited.add_done_callback(lambda _: pools.pop(process))
        return f"stoker-{pools[process]}"
