"""`stoker.connect()` and `stoker.connect_async()`."""

import os
from dataclasses import replace
from pathlib import Path

from stoker.client.blocking import BlockingClient
from stoker.client.cluster import AsyncCluster, Cluster
from stoker.client.options import ClientOptions

DEFAULT_MASTER = "http://127.0.0.1:8081"


def connect(
    masters: str | None = None,
    *,
    token: str | None = None,
    authorities: str | Path | None = None,
    options: ClientOptions | None = None,
) -> Cluster:
    """The cluster behind a master's URL, or behind several separated by commas; sends nothing yet.

    Without a URL: $STOKER_MASTER, else http://127.0.0.1:8081. Without a token:
    $STOKER_CLIENT_TOKEN. `authorities` is a PEM file of the authorities that sign for https://
    masters.
    """
    return Cluster(BlockingClient(_masters(masters), _options(token, authorities, options)))


def connect_async(
    masters: str | None = None,
    *,
    token: str | None = None,
    authorities: str | Path | None = None,
    options: ClientOptions | None = None,
) -> AsyncCluster:
    """As `connect`, for programs with an event loop: `async with stoker.connect_async()`."""
    # Brings httpx, which the blocking client does without.
    from stoker.client.asynchronous import AsyncClient  # noqa: PLC0415

    return AsyncCluster(AsyncClient(_masters(masters), _options(token, authorities, options)))


def _masters(named: str | None) -> str:
    return named or os.environ.get("STOKER_MASTER") or DEFAULT_MASTER


def _options(
    token: str | None, authorities: str | Path | None, options: ClientOptions | None
) -> ClientOptions:
    chosen = options or ClientOptions()
    known = token or chosen.token or os.environ.get("STOKER_CLIENT_TOKEN")
    trusted = chosen.authorities if authorities is None else Path(authorities)
    return replace(chosen, token=known, authorities=trusted)
