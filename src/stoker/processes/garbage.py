"""When the cyclic garbage collector of a process runs.

A master with thousands of jobs holds millions of long-lived objects. Scanning all of them as often
as Python does by default takes a third of its time, in noticeable pauses: with two thousand waiting
jobs, nothing else happens for 0.4 seconds. Reference counting removes nearly all garbage anyway. So
new objects are scanned in small batches, and all objects only when the process is idle.
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
"""A process that is never idle collects after this time all the same."""
QUIET_SECONDS = 0.5
QUIET_SHARE = 0.1
"""Share of one processor below which a process counts as idle; heartbeats use less."""


def collect_garbage_rarely() -> None:
    """Call this when the process has started: objects loaded by then are never scanned again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


async def collect_when_idle(
    processor_seconds: Callable[[], float] = time.process_time,
    collect: Callable[[], object] = gc.collect,
) -> None:
    """Collect all garbage from time to time, until cancelled."""
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
