"""A dedicated thread for blocking calls."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class BlockingThread:
    """Runs blocking calls in the order of their arrival, all on the same thread.

    When the waiter of a call is cancelled, the call is skipped if it has not begun; otherwise it
    continues to its end, and its outcome is lost.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        # Threads of a pool are not daemons: at exit the interpreter waits for the call in progress.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closed:
            raise RuntimeError(f"thread {self.name} is closed")
        return await asyncio.wrap_future(self._worker.submit(call, *args, **kwargs))

    async def close(self) -> None:
        """Refuse further calls, finish those that wait, then end the thread."""
        if self._closed:
            return
        self._closed = True
        last = self._worker.submit(lambda: None)
        self._worker.shutdown(wait=False)
        await asyncio.wrap_future(last)
        # Nothing is left to do for the thread, so this takes no time.
        self._worker.shutdown(wait=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
