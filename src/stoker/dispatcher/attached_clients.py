"""Jobs that are bound to the client which submitted them: cancelled when it is gone too long."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from stoker.core.errors import StokerError
from stoker.core.ids import JobId

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


class AttachedClients:
    """Decides by times of the loop that are passed in."""

    def __init__(self) -> None:
        self._until: dict[JobId, float] = {}

    def seen(self, job_id: JobId, until: float) -> None:
        """Its client was there, and wants to be missed from `until` on."""
        self._until[job_id] = max(until, self._until.get(job_id, until))

    def overdue(self, bound: Mapping[JobId, float], now: float) -> list[JobId]:
        """`bound` are the live jobs with the seconds that their client may be silent.

        One that was not heard of yet has all its time from now on: its leader may be new.
        """
        self._until = {
            job_id: self._until.get(job_id, now + seconds) for job_id, seconds in bound.items()
        }
        return [job_id for job_id, until in self._until.items() if until <= now]


async def cancel_abandoned(
    clients: AttachedClients,
    bound: Callable[[], Mapping[JobId, float]],
    cancel: Callable[[JobId], Awaitable[None]],
) -> None:
    """For as long as the dispatcher leads. A cancel that fails is tried at the next look."""
    while True:
        for job_id in clients.overdue(bound(), asyncio.get_running_loop().time()):
            log.warning("job %s is cancelled: its client has not been heard of", job_id)
            try:
                await cancel(job_id)
            except StokerError as error:
                log.warning("job %s is not cancelled yet: %s", job_id, error)
        await asyncio.sleep(LOOK_SECONDS)
