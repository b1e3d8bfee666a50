"""Wall-clock time for records that people read.

Timeouts and deadlines never use it: they use the monotonic time of the running loop, which a
simulation replaces with virtual time.
"""

import time
from collections.abc import Callable

WallClock = Callable[[], int]
"""Milliseconds since 1970."""


def system_wall_clock() -> int:
    return time.time_ns() // 1_000_000
