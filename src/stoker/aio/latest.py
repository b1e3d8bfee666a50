"""A value that changes, for those who care about the newest one only."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """Set by one, awaited by many. Values between two looks of a waiter may be skipped."""

    def __init__(self, value: T) -> None:
        self._value = value
        # In the order of their arrival, so that a simulation repeats exactly.
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
