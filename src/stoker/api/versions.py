"""Which version of the API a client and a master speak; each tells the other in a header.

Whoever sends no header is let in: Flink's tools, curl, and clients that are older than this.
"""

import re
from dataclasses import dataclass

API_VERSION = 1
"""Raised when a client of before could misunderstand an answer, or be misunderstood."""
OLDEST_API_VERSION = 1
"""Of the other side, with which this one still works."""
CLIENT_HEADER = "Stoker-Client"
SERVER_HEADER = "Stoker-Server"

_TOLD = re.compile(r"(\S{1,64}) api/(\d{1,9})")


@dataclass(frozen=True, kw_only=True)
class PeerVersion:
    version: str
    api: int


def version_header(version: str) -> str:
    """The content of either header."""
    return f"{version} api/{API_VERSION}"


def parse_version_header(text: str | None) -> PeerVersion | None:
    """None for no header, and for one that nobody of us wrote."""
    found = None if text is None else _TOLD.fullmatch(text)
    return None if found is None else PeerVersion(version=found[1], api=int(found[2]))


def explain_refused_client(
    text: str | None, version: str, oldest: int = OLDEST_API_VERSION
) -> str | None:
    """Why a master of this version cannot serve a client that sent this header."""
    client = parse_version_header(text)
    if client is None or client.api >= oldest:
        return None
    return (
        f"the client is of version {client.version} (API {client.api}), and this master of "
        f"{version} serves API {oldest} and later; install stoker {version} where the client runs"
    )


def explain_refused_server(
    text: str | None, version: str, oldest: int = OLDEST_API_VERSION
) -> str | None:
    """Why a client of this version cannot use a master that answered with this header."""
    server = parse_version_header(text)
    if server is None or server.api >= oldest:
        return None
    return (
        f"the master is of version {server.version} (API {server.api}), and this client of "
        f"{version} needs API {oldest} or later; upgrade the masters, or install stoker "
        f"{server.version} here"
    )
