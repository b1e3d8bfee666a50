"""`stoker.connect()` and `stoker.connect_async()`."""

from dataclasses import replace
from pathlib import Path

from stoker.client.blocking import BlockingClient
from stoker.client.cluster import AsyncCluster, Cluster
from stoker.client.options import ClientOptions
from stoker.processes.discovery import (
    configuration_if_set,
    find_masters,
    nothing_found,
    with_trusted_user,
)
from stoker.processes.local.token import token_for


def connect(
    masters: str | None = None,
    *,
    token: str | None = None,
    authorities: str | Path | None = None,
    options: ClientOptions | None = None,
) -> Cluster:
    """A handle on a cluster, the same one that the command line finds.

    ```python
    with stoker.connect("http://a:8081,http://b:8081") as cluster:
        print(cluster.submit("words.py").result().status)
    ```

    Nothing is sent yet, so a cluster that is named may be down at the moment. Unavailable if no
    cluster is found, or if the local cluster died.

    - `masters`: URL of a master, or of several separated by commas: if one does not answer, the
      next is asked. None means `options.master`, else `$STOKER_MASTER`, else the cluster that runs
      this program, else the option `client.master` of the configuration, else the local cluster
      that `stoker cluster up` started.
    - `token`: proves to a cluster with tokens who is calling. None means `options.token`, else the
      token of the local cluster if these are its masters, else the option `client.token`, which
      `$STOKER_CLIENT_TOKEN` can set.
    - `authorities`: PEM file with the certificates of the authorities that sign for `https://`
      masters. None means `options.authorities`, else those that the system trusts.
    - `options`: everything that can be set about a client, such as its timeouts. None means what
      the configuration says: `stoker.yml` and variables.
    """
    found, chosen = _choose(masters, token, authorities, options)
    return Cluster(BlockingClient(found, chosen))


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

    found, chosen = _choose(masters, token, authorities, options)
    return AsyncCluster(AsyncClient(found, chosen))


def _choose(
    masters: str | None,
    token: str | None,
    authorities: str | Path | None,
    options: ClientOptions | None,
) -> tuple[str, ClientOptions]:
    """The masters to speak to, and the options of the client."""
    configuration = configuration_if_set()
    configured = ClientOptions() if configuration is None else configuration.of(ClientOptions)
    chosen = options or configured
    named = masters or (None if options is None else options.master)
    found = find_masters(named, configuration)
    if found is None:
        raise nothing_found('stoker.connect("http://HOST:PORT")')
    trusted = chosen.authorities if authorities is None else Path(authorities)
    own = token or (None if options is None else options.token)
    known = own or token_for(found) or configured.token
    return found, with_trusted_user(replace(chosen, token=known, authorities=trusted))
