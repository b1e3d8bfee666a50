"""`stoker.connect()` and `stoker.connect_async()`."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.client.cluster import Cluster
from stoker.client.options import ClientOptions

if TYPE_CHECKING:
    from stoker.client.async_cluster import AsyncCluster

DEFAULT_MASTER = "http://127.0.0.1:8081"


def connect(
    masters: str | None = None,
    *,
    token: str | None = None,
    authorities: str | Path | None = None,
    options: ClientOptions | None = None,
) -> Cluster:
    """A cluster by the URL of its master, or several with commas; nothing is sent yet.

    Without it: $STOKER_MASTER, else http://127.0.0.1:8081. The token may come from
    $STOKER_CLIENT_TOKEN; `authorities` is the file of those who sign for https:// masters.
    """
    # The blocking client is there already; httpx would only cost time here.
    from stoker.client.blocking import BlockingClient  # noqa: PLC0415

    return Cluster(BlockingClient(_masters(masters), _options(token, authorities, options)))


def connect_async(
    masters: str | None = None,
    *,
    token: str | None = None,
    authorities: str | Path | None = None,
    options: ClientOptions | None = None,
) -> "AsyncCluster":
    """As `stoker.connect`, for programs with an event loop: `async with stoker.connect_async()`."""
    from stoker.client.async_cluster import AsyncCluster  # noqa: PLC0415
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
