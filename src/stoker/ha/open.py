"""Opening the coordinator that a URL names."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from stoker.core.errors import InvalidOption
from stoker.core.ids import Ids
from stoker.ha.coordinator import Coordinator
from stoker.ha.zookeeper.location import read_location
from stoker.ha.zookeeper.options import ZooKeeperOptions

KNOWN_SCHEMES = ("embedded", "zookeeper")


async def open_coordinator(
    url: str, *, ids: Ids, auto_renewing: bool = False, options: ZooKeeperOptions | None = None
) -> Coordinator:
    """A new session; an auto-renewing one is replaced by another session when it ends.

    `embedded:///directory` serves the processes of one machine; `zookeeper://host:port,…/root`
    processes on many machines. The options are for ZooKeeper.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "embedded":
            directory = Path(unquote(parts.path))
            return await _open_embedded(url, parts.netloc, directory, ids.nonce(), auto_renewing)
        case "zookeeper":
            return await _open_zookeeper(url, options or ZooKeeperOptions(), auto_renewing)
        case _:
            known = ", ".join(f"{scheme}://" for scheme in KNOWN_SCHEMES)
            raise InvalidOption(f"no coordinator for {url!r}; known are: {known}", url=url)


async def _open_embedded(
    url: str, host: str, directory: Path, session: str, auto_renewing: bool
) -> Coordinator:
    from stoker.ha.embedded.coordinator import EmbeddedCoordinator  # noqa: PLC0415

    if host or directory == Path("/") or not directory.is_absolute():
        raise InvalidOption(
            f"{url!r} names no directory; write embedded:///absolute/directory", url=url
        )
    return await EmbeddedCoordinator.open(directory, session=session, auto_renewing=auto_renewing)


async def _open_zookeeper(url: str, options: ZooKeeperOptions, auto_renewing: bool) -> Coordinator:
    location = read_location(url)
    from stoker.ha.zookeeper.coordinator import ZooKeeperCoordinator  # noqa: PLC0415

    return await ZooKeeperCoordinator.open(location, options, auto_renewing=auto_renewing)
