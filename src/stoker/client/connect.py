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
    """A handle on a cluster. It sends nothing yet, so it also works while no master runs.

    ```python
    with stoker.connect("http://a:8081,http://b:8081") as cluster:
        print(cluster.submit("words.py").result().status)
    ```

    - `masters`: URL of a master, or of several separated by commas: if one does not answer, the
      next is asked. None means `options.master`, else `$STOKER_MASTER`, else
      `http://127.0.0.1:8081`.
    - `token`: proves to a cluster with tokens who is calling. None means `options.token`, else
      `$STOKER_CLIENT_TOKEN`.
    - `authorities`: PEM file with the certificates of the authorities that sign for `https://`
      masters. None means `options.authorities`, else those that the system trusts.
    - `options`: everything that can be set about a client, such as its timeouts.
    """
    chosen = _options(token, authorities, options)
    return Cluster(BlockingClient(_masters(masters, chosen), chosen))


def connect_async(
    masters: str | None = None,
    *,
    token: str | None = None,
    authorities: str | Path | None = None,
    options: ClientOptions | None = None,
) -> AsyncCluster:
    """Like `connect`, for programs with an event loop.

    ```python
    async with stoker.connect_async() as cluster:
        job = await cluster.submit("words.py")
        print((await job.result()).status)
    ```
    """
    # Imports httpx, which is slow to import and which the blocking client does not need.
    from stoker.client.asynchronous import AsyncClient  # noqa: PLC0415

    chosen = _options(token, authorities, options)
    return AsyncCluster(AsyncClient(_masters(masters, chosen), chosen))


def _masters(named: str | None, options: ClientOptions) -> str:
    return named or options.master or os.environ.get("STOKER_MASTER") or DEFAULT_MASTER


def _options(
    token: str | None, authorities: str | Path | None, options: ClientOptions | None
) -> ClientOptions:
    chosen = options or ClientOptions()
    known = token or chosen.token or os.environ.get("STOKER_CLIENT_TOKEN")
    trusted = chosen.authorities if authorities is None else Path(authorities)
    return replace(chosen, token=known, authorities=trusted)
