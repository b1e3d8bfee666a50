"""What became of a Spark server that a task has lost."""

import asyncio
import logging
from contextlib import suppress
from urllib.parse import urlsplit

from stoker.engine.connect.server import SparkServer

logger = logging.getLogger(__name__)

_NOTICE_SECONDS = 2.0
"""A runner may notice before the kernel has told us that the process is gone."""
_FAREWELL_SECONDS = 15.0
"""For a Spark that has stopped and is on its way out: it clears its files away first."""
_ANSWER_SECONDS = 5.0


async def has_ended(server: SparkServer) -> bool:
    """Or was ended now: a process in which Spark itself has stopped is of no use to anybody."""
    await asyncio.wait([server.died], timeout=_NOTICE_SECONDS)
    if server.died.done() or await _answers(server.ui):
        return server.died.done()
    await asyncio.wait([server.died], timeout=_FAREWELL_SECONDS)
    if not server.died.done():
        logger.warning("Spark has stopped, but its process %s has not ended: killed", server.pid)
        server.put_down("Spark had stopped in it, and it did not end", is_neighbours=False)
        await asyncio.wait([server.died])
    return True


async def _answers(ui: str) -> bool:
    """Whether Spark's page is there, which goes first when Spark stops."""
    address = urlsplit(ui)
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_ANSWER_SECONDS):
            _, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.close()
        return True
    return False
