"""When a process looks for garbage in cycles.

A master with thousands of jobs holds millions of objects that live for long. Looking through all
of them as often as Python does by default takes a third of its time, in pauses that are felt: with
two thousand jobs that wait, nothing else happens for 0.4 seconds. Nearly all garbage goes by
counting references. So new objects are looked at in small lots, and all of them only when the
process has nothing else to do.
"""

import asyncio
import gc
import time
from collections.abc import Callable
from contextlib import suppress

_NEVER_BY_ITSELF = 1_000_000
THRESHOLDS = (2_000, 4, _NEVER_BY_ITSELF)
ROUND_SECONDS = 60.0
LONGEST_DELAY_SECONDS = 600.0
"""One that never rests looks all the same."""
QUIET_SECONDS = 0.5
QUIET_SHARE = 0.1
"""Of one processor: what heartbeats take is less."""


def look_seldom_for_garbage() -> None:
    """Once the process is up: what it has loaded by then stays, and is looked at no more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


async def collect_when_quiet(
    processor_seconds: Callable[[], float] = time.process_time,
    collect: Callable[[], object] = gc.collect,
) -> None:
    """Looks at everything now and then; ends when cancelled."""
    while True:
        await asyncio.sleep(ROUND_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_DELAY_SECONDS):
                await _quiet(processor_seconds)
        collect()


async def _quiet(processor_seconds: Callable[[], float]) -> None:
    used = QUIET_SECONDS
    while used > QUIET_SHARE * QUIET_SECONDS:
        before = processor_seconds()
        await asyncio.sleep(QUIET_SECONDS)
        used = processor_seconds() - before
