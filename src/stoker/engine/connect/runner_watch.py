"""Watching what the processes of a task take."""

import asyncio
from pathlib import Path

from stoker.core.results import Failure
from stoker.engine.limits import RunnerLimits, Usage, broken_limit
from stoker.osproc.process_tree import descendants_of, own_bytes

_LOOK_SECONDS = 0.5


async def until_limit_broken(pid: int, limits: RunnerLimits) -> Failure:
    """Returns when the task's processes take more than they may; else never."""
    # What it shares with the process that it was forked from is not the task's.
    before = own_bytes(pid)
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        processes = [pid, *descendants_of(pid)]
        memory = sum(map(own_bytes, processes)) - before
        if memory > limits.memory:
            # That counts pages of forked processes more than once; this does not, but takes long.
            memory = await asyncio.to_thread(sum, map(_proportional_bytes, processes))
        broken = broken_limit(Usage(memory=memory, processes=len(processes)), limits)
        if broken is not None:
            return broken


def _proportional_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
