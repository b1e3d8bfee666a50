"""Threads for blocking calls, besides the common ones of the loop."""

import asyncio
import contextlib
import threading
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


class LimitedThreads:
    """Runs each blocking call on a thread of its own, and only so many at the same time.

    A call that hangs, or that computes for long, takes no common thread from anybody else. When its
    waiter is cancelled, it continues to its end and occupies its place until then. The threads are
    daemons, because at exit the interpreter waits for all others.
    """

    def __init__(self, name: str, *, limit: int) -> None:
        self.name = name
        self._limit = limit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = asyncio.Semaphore(limit)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        await self._places().acquire()
        return await self._begin(lambda: call(*args, **kwargs))

    def _places(self) -> asyncio.Semaphore:
        """Those of the running loop: a program may have one loop after the other."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._free = loop, asyncio.Semaphore(self._limit)
        return self._free

    def _begin(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        loop, free = asyncio.get_running_loop(), self._free
        outcome: asyncio.Future[T] = loop.create_future()

        def end(value: T | None, error: BaseException | None) -> None:
            free.release()
            if outcome.done():
                return
            if error is None:
                outcome.set_result(value)  # type: ignore[arg-type]
            else:
                outcome.set_exception(error)

        def work() -> None:
            value, failure = None, None
            # The waiter gets every error of the call.
            try:
                value = call()
            except BaseException as error:
                failure = error
            # The loop may have ended while the call hung.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(end, value, failure)

        threading.Thread(target=work, name=self.name, daemon=True).start()
        return outcome
