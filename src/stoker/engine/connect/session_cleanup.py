"""Ends sessions whose runner is dead, so that nothing of them continues at the Spark server.

Spark Connect goes on with the work of a client that has disconnected. A janitor process, forked
from the zygote, connects to such a session in place of the runner and interrupts its work. Work
that cannot be interrupted ends with the Spark server only, and with it all other tasks there.
"""

import asyncio
import logging

from stoker.aio.race import StoppedFirst, run_unless
from stoker.core.errors import StokerError
from stoker.core.failpoints import failpoint
from stoker.engine.connect.server import SparkServer
from stoker.engine.connect.supervised import Supervised
from stoker.engine.connect.zygote_client import ForkedProcess, ZygoteClient
from stoker.engine.protocol import EndSession, SessionEnded, SessionNotEnded

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 30.0
_RETRY_SECONDS = 0.5


async def kill_for_uninterruptible_tasks(server: SparkServer, report: SessionNotEnded) -> None:
    """Kill the server: the tasks would hold Spark's cores for as long as they like."""
    logger.warning("kill the Spark server of session %s: %s", report.session_id, report.reason)
    failpoint("uninterruptible-tasks.before-killing-the-server")
    server.kill(
        "it was killed, because tasks of a job that had been cancelled or had failed still ran "
        "on it (see task.cancellation.timeout)",
        is_collateral=True,
    )
    await asyncio.wait([server.died])
    failpoint("uninterruptible-tasks.after-killing-the-server")


class SessionCleanup:
    """Sends sessions to one janitor process, which is forked when it is first needed."""

    def __init__(self, zygote: Supervised[ZygoteClient]) -> None:
        self._zygote = zygote
        self._janitor: ForkedProcess | None = None
        self._one_at_a_time = asyncio.Lock()

    async def end(
        self, server: SparkServer, session_id: str, *, kill_at: float
    ) -> SessionEnded | None:
        """Return when the server reports the end of the session, or None when the server is dead.

        If tasks of Spark still run at `kill_at`, in the loop's time, the server is killed.
        """
        while not server.died.done():
            # Locked for one try only: a session that does not end must not block the others.
            async with self._one_at_a_time:
                try:
                    answer = await run_unless(
                        server.died, self._try_to_end(server, session_id, kill_at)
                    )
                    if isinstance(answer, SessionEnded):
                        return answer
                    if answer is not None and answer.uninterruptible:
                        await kill_for_uninterruptible_tasks(server, answer)
                except StoppedFirst:
                    await self._dismiss_janitor()
                    return None
            await asyncio.sleep(_RETRY_SECONDS)
        return None

    async def _try_to_end(
        self, server: SparkServer, session_id: str, kill_at: float
    ) -> SessionEnded | SessionNotEnded | None:
        try:
            janitor = await self._get_janitor()
        except StokerError as error:
            logger.warning("no janitor for session %s yet: %s", session_id, error)
            return None
        left = kill_at - asyncio.get_running_loop().time()
        await janitor.send(
            EndSession(
                url=server.url(session_id),
                session_id=session_id,
                ui=server.ui,
                server_pid=server.pid,
                uninterruptible_after=max(left, 0.0),
            )
        )
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await janitor.receive()
        except TimeoutError:
            answer = None
        match answer:
            case SessionEnded():
                return answer
            case SessionNotEnded(reason=reason):
                logger.warning("session %s still runs: %s", session_id, reason)
                return answer
            case _:
                await self._dismiss_janitor()
        return None

    async def _get_janitor(self) -> ForkedProcess:
        if self._janitor is None or not self._janitor.is_alive:
            zygote = await self._zygote.get()
            self._janitor = await zygote.fork(janitor=True)
        return self._janitor

    async def _dismiss_janitor(self) -> None:
        if self._janitor is not None:
            await self._janitor.kill()
            self._janitor = None
