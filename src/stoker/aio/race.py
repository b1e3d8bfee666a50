"""Work that is worth waiting for only until something else has happened."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StoppedFirst(Exception):
    """The stop condition came true before the work was done."""


async def run_unless(stop: "asyncio.Future[Any]", work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; cancel it and raise StoppedFirst if `stop` is done first."""
    task = asyncio.create_task(work, name=getattr(work, "__qualname__", "work"))
    try:
        await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise StoppedFirst
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
