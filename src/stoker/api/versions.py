"""Which version of the API a client and a master use; each sends its own in a header.

A request without the header is accepted: it comes from Flink's tools or from curl.
"""

import re
from dataclasses import dataclass

API_VERSION = 1
"""Increase when an older client could misunderstand an answer or be misunderstood."""
OLDEST_API_VERSION = 1
"""Oldest API version of the other side with which this version still works."""
CLIENT_HEADER = "Stoker-Client"
SERVER_HEADER = "Stoker-Server"

_HEADER = re.compile(r"(\S{1,64}) api/(\d{1,9})")


@dataclass(frozen=True, kw_only=True)
class PeerVersion:
    version: str
    api: int


def version_header(version: str) -> str:
    """Value of either header."""
    return f"{version} api/{API_VERSION}"


def parse_version_header(text: str | None) -> PeerVersion | None:
    """None for a missing header and for one that is not Stoker's."""
    found = None if text is None else _HEADER.fullmatch(text)
    return None if found is None else PeerVersion(version=found[1], api=int(found[2]))


def explain_refused_client(
    text: str | None, version: str, oldest: int = OLDEST_API_VERSION
) -> str | None:
    """Why a master of this version cannot serve a client with this header; None if it can."""
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
    """Why a client of this version cannot use a master with this header; None if it can."""
    server = parse_version_header(text)
    if server is None or server.api >= oldest:
        return None
    return (
        f"the master is of version {server.version} (API {server.api}), and this client of "
        f"{version} needs API {oldest} or later; upgrade the masters, or install stoker "
        f"{server.version} here"
    )
