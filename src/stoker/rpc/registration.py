"""Registration at another component, tried until it is accepted or rejected."""

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


class RegistrationVerdict(Enum):
    """What an answer means for the caller."""

    ACCEPTED = auto()
    REFUSED = auto()
    """Refused for now: try again later."""
    REJECTED = auto()
    """Rejected for good: asking again cannot help."""


@dataclass(frozen=True, kw_only=True)
class RegistrationAttempt:
    """The next attempt: when, for how long, and whether over a new connection."""

    pause: timedelta
    timeout: timedelta
    reconnect: bool


def first_attempt(options: RegistrationOptions) -> RegistrationAttempt:
    return RegistrationAttempt(pause=timedelta(0), timeout=options.initial_timeout, reconnect=True)


def after_timeout(failed: RegistrationAttempt, options: RegistrationOptions) -> RegistrationAttempt:
    doubled = min(failed.timeout * 2, options.max_timeout)
    return RegistrationAttempt(pause=timedelta(0), timeout=doubled, reconnect=False)


def after_error(options: RegistrationOptions) -> RegistrationAttempt:
    return replace(first_attempt(options), pause=options.error_delay)


def after_refusal(options: RegistrationOptions) -> RegistrationAttempt:
    return replace(first_attempt(options), pause=options.refused_delay, reconnect=False)


ReportAttempt = Callable[[RegistrationAttempt, object], None]
"""Receives the next attempt and its cause: an error, or an answer that refused."""


def _ignore_attempt(_next: RegistrationAttempt, _why: object) -> None:
    pass


async def register(
    connect: Callable[[], Awaitable[G]],
    ask: Callable[[G], Awaitable[A]],
    judge: Callable[[A], RegistrationVerdict],
    *,
    options: RegistrationOptions,
    tell: ReportAttempt = _ignore_attempt,
) -> A:
    """Connect and ask until an answer is accepted or rejected, and return that answer.

    After a timeout it tries again at once with twice the time; after an error it pauses and
    connects again; after a refusal it pauses and asks again. Cancel it to give up.
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
        # Registration continues after any error of the other end or of the connection.
        except Exception as error:
            attempt, why = after_error(options), error
        else:
            if judge(answer) is not RegistrationVerdict.REFUSED:
                return answer
            attempt, why = after_refusal(options), answer
        tell(attempt, why)
