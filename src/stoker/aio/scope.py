"""A scope that owns tasks: no task outlives it.

asyncio's TaskGroup has two pitfalls that matter here. A task that fails in the moment when the body
ends makes the group cancel its owner for good; and when the owner is cancelled at the moment of a
failure, the group forgets the cancellation, so that whoever cancelled it waits for ever.
"""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from stoker.core.errors import StokerError

T = TypeVar("T")


class TaskScope:
    """A lifetime for tasks that serve its body.

    At the end of the body all tasks are cancelled and awaited, quietly. When a task fails, the
    body is cancelled and the failure leaves the scope as it is. Of several failures at the same
    moment that are all StokerErrors (a peer that crashed fails every call to it) the first one
    leaves, so that a handler of one error handles many; others leave as an exception group. A task
    that ends by itself affects nothing else.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._group = asyncio.TaskGroup()
        # In order of their start, so that simulations are repeatable.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._cancels_before = 0
        self._open = False

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        if not self._open:
            coroutine.close()
            raise RuntimeError(f"scope {self.name} is not open, {name} cannot start in it")
        try:
            task = self._group.create_task(coroutine, name=f"{self.name}/{name}")
        except RuntimeError:
            # A task of the scope has just failed, and the body does not know yet.
            coroutine.close()
            raise
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._cancels_before = _cancels()
        self._open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._open = False
        for task in list(self._tasks):
            task.cancel()
        # Report even a body that ended normally as cancelled: then a task that fails at this very
        # moment cannot make the group cancel the owner for good.
        over = asyncio.CancelledError()
        try:
            await self._group.__aexit__(kind or asyncio.CancelledError, error or over, traceback)
        except asyncio.CancelledError as cancelled:
            if cancelled is over and _cancels() == self._cancels_before:
                return False
            raise
        except BaseExceptionGroup as group:
            if _cancels() > self._cancels_before:
                # The owner was cancelled at the same moment. A TaskGroup would forget that, and
                # whoever cancelled the owner would wait in vain for its end.
                raise asyncio.CancelledError from group
            expected = all(isinstance(each, StokerError) for each in group.exceptions)
            if len(group.exceptions) > 1 and not expected:
                raise
            if group.exceptions[0] is error:
                return False
            raise group.exceptions[0] from group.exceptions[0].__cause__
        return False


def _cancels() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0
