"""A changing value, for readers that need only the latest one."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """One writer sets it, many readers wait for it. A reader may miss values in between."""

    def __init__(self, value: T) -> None:
        self._value = value
        # In order of arrival, so that simulations are repeatable.
        self._waiters: dict[asyncio.Future[None], None] = {}

    @property
    def value(self) -> T:
        return self._value

    def set(self, value: T) -> None:
        self._value = value
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for_change(self, known: T) -> T:
        """The value, as soon as it differs from `known`; at once when it does already."""
        return await self.wait_until(lambda value: value != known)

    async def wait_until(self, predicate: Callable[[T], bool]) -> T:
        """The first value seen that satisfies the predicate."""
        while True:
            seen = self._value
            if predicate(seen):
                return seen
            waiter = asyncio.get_running_loop().create_future()
            self._waiters[waiter] = None
            try:
                await waiter
            finally:
                self._waiters.pop(waiter, None)
