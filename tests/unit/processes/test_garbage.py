"""When the cyclic garbage collector runs.

The settings are tested in a child process, so that those of this interpreter do not change.
"""

import asyncio
import subprocess
import sys

import pytest

from stoker.processes.garbage import (
    LONGEST_DELAY_SECONDS,
    QUIET_SECONDS,
    ROUND_SECONDS,
    collect_when_idle,
)
from stoker.testing.virtual_time import run_virtual

LOOK = """
import gc
from stoker.processes.garbage import collect_garbage_rarely
collect_garbage_rarely()
print(gc.get_freeze_count() > 1000, *gc.get_threshold())
class Knot: pass
for _ in range(30_000):
    knot = Knot(); knot.itself = knot
print(sum(isinstance(each, Knot) for each in gc.get_objects()) < 30_000)
"""


def test_loaded_modules_are_not_scanned_again_and_new_garbage_is_collected() -> None:
    looked = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True
    )
    assert looked.stdout.splitlines() == ["True 2000 4 1000000", "True"]


class Processor:
    """The processor time of a process that is busy until a certain moment."""

    def __init__(self, busy_until: float) -> None:
        self._busy_until = busy_until

    def seconds(self) -> float:
        return min(asyncio.get_running_loop().time(), self._busy_until)


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        (0.0, ROUND_SECONDS + QUIET_SECONDS),
        (ROUND_SECONDS + 30.0, ROUND_SECONDS + 30.0 + QUIET_SECONDS),
        (1e9, ROUND_SECONDS + LONGEST_DELAY_SECONDS),
    ],
)
def test_a_full_collection_waits_for_an_idle_moment_or_a_long_time(
    busy: float, expected: float
) -> None:
    async def scenario() -> list[float]:
        loop = asyncio.get_running_loop()
        begin, looks = loop.time(), list[float]()
        processor = Processor(begin + busy)
        collecting = asyncio.create_task(
            collect_when_idle(processor.seconds, lambda: looks.append(loop.time() - begin))
        )
        await asyncio.sleep(expected + 1.0)
        collecting.cancel()
        return looks

    assert run_virtual(scenario()) == [pytest.approx(expected, abs=QUIET_SECONDS)]
