"""Making sure that nothing of a session runs on at the Spark server."""

import asyncio
import logging

from stoker.core.errors import StokerError
from stoker.core.failpoints import failpoint
from stoker.engine.connect.server import SparkServer
from stoker.engine.connect.supervised import Kept
from stoker.engine.connect.waiting import Stopped, unless
from stoker.engine.connect.zygote_client import ForkedProcess, ZygoteLink
from stoker.engine.protocol import EndSession, SessionEnded, SessionNotEnded

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 30.0
_RETRY_SECONDS = 0.5


async def put_down_for(server: SparkServer, deaf: SessionNotEnded) -> None:
    """Its tasks would keep Spark's cores from all others for as long as they like."""
    logger.warning("the Spark server of session %s is killed: %s", deaf.session_id, deaf.reason)
    failpoint("deaf-tasks.before-killing-the-server")
    server.put_down(
        "it was killed, because tasks of a job that had been cancelled or had failed went on at it "
        "(see task.cancellation.timeout)",
        is_neighbours=True,
    )
    await asyncio.wait([server.died])
    failpoint("deaf-tasks.after-killing-the-server")


class SessionEnder:
    """Speaks to the janitor process, which is started when first needed."""

    def __init__(self, zygote: Kept[ZygoteLink]) -> None:
        self._zygote = zygote
        self._janitor: ForkedProcess | None = None
        self._one_at_a_time = asyncio.Lock()

    async def end(
        self, server: SparkServer, session_id: str, *, deaf_at: float
    ) -> SessionEnded | None:
        """Returns when the server says that the session is over; None when it is dead itself.

        By the loop's time `deaf_at`, tasks of Spark that still go on are its death.
        """
        while not server.died.done():
            # Only for one try: a session that will not end must not keep others from ending.
            async with self._one_at_a_time:
                try:
                    answer = await unless(
                        server.died, self._try_to_end(server, session_id, deaf_at)
                    )
                    if isinstance(answer, SessionEnded):
                        return answer
                    if answer is not None and answer.deaf:
                        await put_down_for(server, answer)
                except Stopped:
                    await self._dismiss()
                    return None
            await asyncio.sleep(_RETRY_SECONDS)
        return None

    async def _try_to_end(
        self, server: SparkServer, session_id: str, deaf_at: float
    ) -> SessionEnded | SessionNotEnded | None:
        try:
            janitor = await self._ready_janitor()
        except StokerError as error:
            logger.warning("no janitor for session %s yet: %s", session_id, error)
            return None
        left = deaf_at - asyncio.get_running_loop().time()
        await janitor.send(
            EndSession(
                url=server.url(session_id),
                session_id=session_id,
                ui=server.ui,
                server_pid=server.pid,
                deaf_after=max(left, 0.0),
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
                await self._dismiss()
        return None

    async def _ready_janitor(self) -> ForkedProcess:
        if self._janitor is None or not self._janitor.is_alive:
            zygote = await self._zygote.get()
            self._janitor = await zygote.fork(janitor=True)
        return self._janitor

    async def _dismiss(self) -> None:
        if self._janitor is not None:
            await self._janitor.kill()
            self._janitor = None
