"""Uncaught errors: of a thread, of a callback, or of a task whose result was never awaited.

They are always logged. With the option `fail`, the first one ends the process instead of leaving it
half alive.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from stoker.config.processes import UncaughtExceptions

log = logging.getLogger(__name__)


class Uncaught(Exception):
    """Ends a process that is configured to fail on uncaught errors."""


class UncaughtErrors:
    """Receives every uncaught error, and keeps the first one."""

    def __init__(self, handling: UncaughtExceptions) -> None:
        self._handling = handling
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[BaseException] = self._loop.create_future()

    async def raise_first(self) -> None:
        """Wait for the first error and raise it; waits for ever when errors are only logged."""
        error = await asyncio.shield(self._first)
        raise Uncaught(f"uncaught {type(error).__name__}: {error}") from error

    def note_from_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        loop.default_exception_handler(context)
        if isinstance(error, Exception):
            self._note(error)

    def note_from_thread(self, args: "threading.ExceptHookArgs") -> None:
        error = args.exc_value
        if error is None or isinstance(error, SystemExit):
            return
        name = args.thread.name if args.thread else "?"
        log.error("uncaught error in thread %s", name, exc_info=error)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note, error)

    def _note(self, error: BaseException) -> None:
        if self._handling is UncaughtExceptions.FAIL and not self._first.done():
            self._first.set_result(error)


@asynccontextmanager
async def uncaught_errors(handling: UncaughtExceptions) -> AsyncIterator[UncaughtErrors]:
    errors = UncaughtErrors(handling)
    loop = asyncio.get_running_loop()
    previous_handler, previous_hook = loop.get_exception_handler(), threading.excepthook
    loop.set_exception_handler(errors.note_from_loop)
    threading.excepthook = errors.note_from_thread
    try:
        yield errors
    finally:
        loop.set_exception_handler(previous_handler)
        threading.excepthook = previous_hook
