"""Retries: a pure schedule of delays, and the loop that uses it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

T = TypeVar("T")

TellFailure = Callable[[Exception, timedelta], None]
"""Called before each retry, with the error of the last attempt and the delay until the next."""


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Delays that grow up to a maximum.

    `jitter` is the share by which a delay varies in both directions: 0.1 is 10 percent.
    """

    initial: timedelta
    maximum: timedelta
    multiplier: float = 2.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if self.initial < timedelta(0) or self.maximum < self.initial:
            raise ValueError(f"a delay grows from 0 or more to its maximum: {self}")
        if self.multiplier < 1 or not 0 <= self.jitter <= 1:
            raise ValueError(f"the multiplier is at least 1 and the jitter is a share: {self}")

    def delay(self, failures: int, randomness: random.Random | None = None) -> timedelta:
        """The delay after a failure that `failures` others preceded; 0 gives the initial delay."""
        try:
            grown = self.initial.total_seconds() * self.multiplier**failures
        except OverflowError:
            grown = self.maximum.total_seconds()
        seconds = min(grown, self.maximum.total_seconds())
        if self.jitter and randomness is not None:
            seconds *= 1 + self.jitter * randomness.uniform(-1, 1)
        return timedelta(seconds=seconds)


def ignore_failure(_error: Exception, _delay: timedelta) -> None:
    """Ignore failed attempts."""


async def retry(
    operation: Callable[[], Awaitable[T]],
    *,
    on: type[Exception] | tuple[type[Exception], ...],
    backoff: Backoff,
    attempts: int | None = None,
    randomness: random.Random | None = None,
    tell: TellFailure = ignore_failure,
) -> T:
    """Repeat the operation after the errors named in `on`, for ever unless `attempts` is given.

    The error of the last attempt, and any other error, is raised as it is.
    """
    failures = 0
    while True:
        try:
            return await operation()
        except on as error:
            if attempts is not None and failures + 1 >= attempts:
                raise
            delay = backoff.delay(failures, randomness)
            tell(error, delay)
        failures += 1
        await asyncio.sleep(delay.total_seconds())
