"""Waiting for something that the end of something else makes pointless."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """The other thing ended first."""


async def unless(stop: "asyncio.Future[Any]", work: Coroutine[Any, Any, T]) -> T:
    """The result of the work; raises Stopped when `stop` is done before it."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Stopped
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
