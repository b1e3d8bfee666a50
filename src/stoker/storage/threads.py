"""Threads for blocking calls of a storage.

The storage of the cluster uses the common threads of the loop. A place that a client has named may
hang: a server that never answers, a mount whose other end is gone. A thread that waits there cannot
be stopped, and with a few of them no thread would be left for anything else in the process. So such
places have threads of their own, in limited number, and a call is given up after some time. What is
given up still occupies its thread until it returns, so that calls cannot pile up.
"""

import asyncio
import errno
from collections.abc import Callable
from typing import Protocol, TypeVar

from stoker.aio.threads import LimitedThreads

T = TypeVar("T")


class StorageThreads(Protocol):
    async def __call__(self, call: Callable[[], T], *, is_long: bool = False) -> T:
        """Run the call on another thread. `is_long`: it copies or removes any amount of data."""
        ...


async def on_common_thread(call: Callable[[], T], *, is_long: bool = False) -> T:
    return await asyncio.to_thread(call)


class ForeignThreads:
    def __init__(self, *, limit: int = 16, seconds: float = 30.0) -> None:
        """`seconds`: how long a call may take that is not long, with its wait for a thread."""
        self._seconds = seconds
        self._threads = LimitedThreads("foreign-storage", limit=limit)

    async def __call__(self, call: Callable[[], T], *, is_long: bool = False) -> T:
        """Raises OSError when the time is over, and whatever the call raises."""
        patience = asyncio.timeout(None if is_long else self._seconds)
        try:
            async with patience:
                return await self._threads.run(call)
        except TimeoutError:
            if not patience.expired():
                raise
            reason = f"no answer in {self._seconds:g} s"
            raise OSError(errno.ETIMEDOUT, reason) from None
