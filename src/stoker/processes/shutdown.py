"""How a process ends: it closes everything when it is asked to end, within a bounded time."""

import asyncio
import faulthandler
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

from stoker.core.states import ApplicationStatus

log = logging.getLogger(__name__)

FORCED = 2
"""Exit code of a process that was ended by force because its shutdown took too long."""

BeginToEnd = Callable[[], None]
"""Starts the time limit of the shutdown; repeated calls have no effect."""


def without_time_limit() -> None:
    """For processes that continue afterwards, such as tests."""


async def first_of(*events: asyncio.Event) -> None:
    """Return when one of the events is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def exit_code_of(status: ApplicationStatus) -> int:
    """Exit code after a shutdown with this status; service managers restart on all codes but 0."""
    match status:
        case ApplicationStatus.SUCCEEDED | ApplicationStatus.CANCELED:
            return 0
        case ApplicationStatus.FAILED | ApplicationStatus.UNKNOWN:
            return 1


@asynccontextmanager
async def shutdown_signals() -> AsyncIterator[asyncio.Event]:
    """An event that is set by the first SIGTERM or SIGINT."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, asked.set)
    try:
        yield asked
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@contextmanager
def ending_in_time(limit: timedelta) -> Iterator[BeginToEnd]:
    """Yield a function; from its call on, the process must leave the context within `limit`."""
    timer = threading.Timer(limit.total_seconds(), _end_now, [limit])
    # The timer must not keep a process alive that has ended in time.
    timer.daemon = True

    def begin() -> None:
        if timer.ident is None:
            timer.start()

    try:
        yield begin
    finally:
        timer.cancel()


def _end_now(limit: timedelta) -> None:
    log.error("not everything could be closed within %s; the process is ended by force", limit)
    # The stacks show where it hangs.
    faulthandler.dump_traceback()
    os._exit(FORCED)
