"""Clean-up of an ended job: an ordered tuple of steps, each idempotent and retried by itself.

Only a recorded terminal result may authorise it. Pointers go before content, so that a crash in
between leaves an orphan and never a pointer to nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from stoker.aio.retry import Backoff
from stoker.core.errors import Fenced, SessionExpired, StokerError
from stoker.core.ids import JobId

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CleanupStep:
    name: str
    run: Callable[[JobId], Awaitable[None]]


async def clean_up(
    job_id: JobId,
    steps: Sequence[CleanupStep],
    *,
    initial: timedelta,
    maximum: timedelta,
) -> None:
    """Returns when all steps have succeeded; one that fails does not keep others from running."""
    backoff = Backoff(initial=initial, maximum=maximum, multiplier=2.0)
    remaining = list(steps)
    failures = 0
    while remaining:
        failed = []
        for step in remaining:
            try:
                await step.run(job_id)
            except (Fenced, SessionExpired):
                raise  # Another leader finishes it from the dirty result.
            except StokerError as error:
                log.warning("clean-up of job %s, %s: %s", job_id, step.name, error)
                failed.append(step)
        remaining = failed
        if remaining:
            await asyncio.sleep(backoff.delay(failures).total_seconds())
            failures += 1
