"""Checks that a standalone Spark master answers: Spark takes a minute to report that none does."""

import asyncio
import os
import socket
from urllib.parse import urlsplit

_SCHEME = "spark://"
_CONNECT_SECONDS = 5.0


async def find_absent_master(master: str) -> str | None:
    """The reason why no master of the setting spark.master answers; None when one does.

    Of several masters only one has to answer, since the others are standbys. Masters that are not
    standalone are not checked.
    """
    if not master.startswith(_SCHEME):
        return None
    problems = [await _problem_of(each) for each in master.removeprefix(_SCHEME).split(",")]
    if None in problems:
        return None
    return (
        f"no Spark master is at {master} ({'; '.join(each for each in problems if each)}); "
        "start it, or correct spark.master"
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
    """The kernel's reason: the text of asyncio's error names a call and its arguments instead."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno)
