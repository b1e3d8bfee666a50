"""How a process is asked to end: by SIGTERM or SIGINT, once gently."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


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
