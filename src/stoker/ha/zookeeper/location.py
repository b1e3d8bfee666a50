"""Where the records of a cluster are: on which servers, below which node."""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from stoker.core.errors import InvalidInput, InvalidOption
from stoker.ha.transaction import checked_key

DEFAULT_PORT = 2181


@dataclass(frozen=True, kw_only=True)
class Location:
    hosts: tuple[str, ...]
    root: str
    """A path that begins with a slash and does not end with one."""

    def __str__(self) -> str:
        return f"{','.join(self.hosts)}{self.root}"


def read_location(url: str) -> Location:
    """Read `zookeeper://host:port,host:port/root`."""
    parts = urlsplit(url)
    hosts = tuple(_with_port(host, url) for host in parts.netloc.split(","))
    root = unquote(parts.path).strip("/")
    try:
        checked_key(root)
    except InvalidInput:
        raise _refused(url, "names no node to keep the records below") from None
    if root.split("/")[0] == "zookeeper":
        raise _refused(url, "names a node that ZooKeeper keeps for itself")
    return Location(hosts=hosts, root=f"/{root}")


def _with_port(host: str, url: str) -> str:
    # An IPv6 address contains colons and is written in brackets.
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not colon:
        name, port = host, str(DEFAULT_PORT)
    if not name or "@" in name or not port.isdecimal() or not 0 < int(port) < 65536:
        raise _refused(url, f"has {host!r} where a server is expected")
    return f"{name}:{port}"


def _refused(url: str, fault: str) -> InvalidOption:
    return InvalidOption(f"{url!r} {fault}; write zookeeper://host:port,host:port/root", url=url)
