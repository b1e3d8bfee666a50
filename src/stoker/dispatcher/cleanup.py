"""Clean-up of an ended job: an ordered tuple of steps, each idempotent and retried on its own.

Only a recorded terminal result authorizes a clean-up. Pointers are removed before content: a crash
in between leaves an orphaned file, which the sweep finds, and never a pointer to a missing file.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from stoker.aio.retry import Backoff
from stoker.core.errors import Fenced, SessionExpired, StokerError
from stoker.core.ids import JobId
from stoker.dispatcher.options import CleanupStrategy, DispatcherOptions

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CleanupStep:
    name: str
    run: Callable[[JobId], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Retries:
    pauses: Backoff
    attempts: int | None = None
    """Total number of tries, including the first; None to retry until the step succeeds."""


def retries_of(options: DispatcherOptions) -> Retries:
    match options.cleanup_strategy:
        case CleanupStrategy.NONE | CleanupStrategy.DISABLE | CleanupStrategy.OFF:
            return Retries(pauses=_steady(timedelta(0)), attempts=1)
        case CleanupStrategy.FIXED_DELAY:
            return Retries(
                pauses=_steady(options.cleanup_fixed_delay),
                attempts=options.cleanup_fixed_attempts,
            )
        case CleanupStrategy.EXPONENTIAL_DELAY:
            pauses = Backoff(
                initial=options.cleanup_initial_backoff, maximum=options.cleanup_max_backoff
            )
            return Retries(pauses=pauses, attempts=options.cleanup_exponential_attempts)
        case _:
            assert_never(options.cleanup_strategy)


def _steady(pause: timedelta) -> Backoff:
    return Backoff(initial=pause, maximum=pause)


async def clean_up(job_id: JobId, steps: Sequence[CleanupStep], retries: Retries) -> bool:
    """Whether all steps succeeded. A step that fails does not keep the others from running."""
    remaining = list(steps)
    failures = 0
    while remaining := [step for step in remaining if not await _succeeds(step, job_id)]:
        failures += 1
        if retries.attempts is not None and failures >= retries.attempts:
            names = ", ".join(step.name for step in remaining)
            log.warning(
                "clean-up is left to the next leader (%s); see jobs/%s and blobs/%s in the storage",
                names,
                job_id,
                job_id,
            )
            return False
        await asyncio.sleep(retries.pauses.delay(failures - 1).total_seconds())
    return True


async def _succeeds(step: CleanupStep, job_id: JobId) -> bool:
    try:
        await step.run(job_id)
    except (Fenced, SessionExpired):
        raise  # The dirty result makes another leader finish the clean-up.
    except StokerError as error:
        log.warning("clean-up step %s failed: %s", step.name, error)
        return False
    return True
