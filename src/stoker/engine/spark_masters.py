"""Whether a standalone Spark master is there, which Spark itself says only after a minute."""

import asyncio
import os
import socket
from urllib.parse import urlsplit

_SCHEME = "spark://"
_CONNECT_SECONDS = 5.0


async def absence_of(master: str) -> str | None:
    """What is wrong with the setting spark.master, in words; None when somebody is there.

    Of several masters one is enough: the others stand by. What is not a standalone master is not
    looked at.
    """
    if not master.startswith(_SCHEME):
        return None
    found = [await _problem_of(each) for each in master.removeprefix(_SCHEME).split(",")]
    if None in found:
        return None
    return (
        f"no Spark master is at {master} ({'; '.join(each for each in found if each)}); start it, "
        "or correct spark.master"
    )


async def _problem_of(authority: str) -> str | None:
    try:
        parts = urlsplit(f"//{authority}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return f"{authority}: {error}"
    if host is None or port is None:
        return f"{authority} is not host:port"
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"{authority} does not answer within {_CONNECT_SECONDS:g} s"
    except OSError as error:
        return f"{authority}: {_reason(error)}"
    writer.close()
    return None


def _reason(error: OSError) -> str:
    """asyncio tells of a call and its arguments, where the kernel has said why."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno)
