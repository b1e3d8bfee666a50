"""Registering at another component, for as long as it takes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto
from typing import TypeVar

from stoker.core.errors import CallTimedOut
from stoker.rpc.options import RegistrationOptions

G = TypeVar("G")
A = TypeVar("A")


class Verdict(Enum):
    """What an answer means for the one who asked."""

    ACCEPTED = auto()
    REFUSED = auto()
    """Not now: ask again later."""
    REJECTED = auto()
    """Never: asking again cannot help."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The next attempt: when, for how long, and whether over a new connection."""

    pause: timedelta
    timeout: timedelta
    reconnect: bool


def first_attempt(options: RegistrationOptions) -> Attempt:
    return Attempt(pause=timedelta(0), timeout=options.initial_timeout, reconnect=True)


def after_timeout(failed: Attempt, options: RegistrationOptions) -> Attempt:
    doubled = min(failed.timeout * 2, options.max_timeout)
    return Attempt(pause=timedelta(0), timeout=doubled, reconnect=False)


def after_error(options: RegistrationOptions) -> Attempt:
    return replace(first_attempt(options), pause=options.error_delay)


def after_refusal(options: RegistrationOptions) -> Attempt:
    return replace(first_attempt(options), pause=options.refused_delay, reconnect=False)


TellAttempt = Callable[[Attempt, object], None]
"""Told what comes next and why: the error or the answer that made another attempt necessary."""


def _tell_nobody(_next: Attempt, _why: object) -> None:
    pass


async def register(
    connect: Callable[[], Awaitable[G]],
    ask: Callable[[G], Awaitable[A]],
    judge: Callable[[A], Verdict],
    *,
    options: RegistrationOptions,
    tell: TellAttempt = _tell_nobody,
) -> A:
    """Connect and ask until an answer is accepted or rejected, and return that answer.

    An attempt without an answer in time is repeated at once with twice the time, after an error
    there is a pause and a new connection, after a refusal a longer pause. Cancel it to give up.
    """
    attempt = first_attempt(options)
    gateway: G | None = None
    while True:
        await asyncio.sleep(attempt.pause.total_seconds())
        why: object
        try:
            if gateway is None or attempt.reconnect:
                gateway = await connect()
            async with asyncio.timeout(attempt.timeout.total_seconds()):
                answer = await ask(gateway)
        except (TimeoutError, CallTimedOut) as error:
            attempt, why = after_timeout(attempt, options), error
        # Whatever the other end or the way to it raises, registering goes on.
        except Exception as error:
            attempt, why = after_error(options), error
        else:
            if judge(answer) is not Verdict.REFUSED:
                return answer
            attempt, why = after_refusal(options), answer
        tell(attempt, why)
