"""gRPC begun and ended once before runners are forked, so that each of them begins it faster.

What the first channel of a process sets up for good is then shared with all runners. Its threads
are not: a process that forks must have none, so they have to have ended.
"""

import gc
import os
import time
from collections.abc import Callable

import grpc

_NOBODY = "127.0.0.1:1"
"""Never called: a channel connects with its first call."""
_LOOKS = 200
_LOOK_SECONDS = 0.02


def rehearse_grpc() -> bool:
    """Whether this process may fork: it has no thread of gRPC any more."""
    channel = grpc.insecure_channel(_NOBODY)
    channel.unary_unary("/stoker/Rehearsal")
    channel.close()
    del channel
    # gRPC ends with the last object that needs it.
    gc.collect()
    return comes_to_be_alone(_threads)


def comes_to_be_alone(threads: Callable[[], int]) -> bool:
    """Before long: gRPC's threads end by themselves, but nobody says when."""
    for _ in range(_LOOKS):
        if threads() == 1:
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))
