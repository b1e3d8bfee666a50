"""Where the records of a cluster are in ZooKeeper: which servers, and which node for each key.

A key is a node without children; the parts before its last one are folders, whose names begin with
a plus: `jobs/3f` is `/root/+jobs/3f`. So a folder is never mistaken for a key with an empty value,
and no transaction can change a folder by mistake.
"""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from stoker.core.errors import InvalidInput, InvalidOption
from stoker.ha.transaction import ancestors, checked_key

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


_FOLDER = "+"
_LITERAL = "-"
"""Prefix for a name that itself begins with one of the two characters."""


class Paths:
    def __init__(self, root: str) -> None:
        self.root = root

    def of_key(self, key: str) -> str:
        *folders, name = key.split("/")
        escaped = f"{_LITERAL}{name}" if name.startswith((_FOLDER, _LITERAL)) else name
        return "/".join([self.root, *(f"{_FOLDER}{part}" for part in folders), escaped])

    def of_folder(self, key: str) -> str:
        """Folder of the keys below this one."""
        return "/".join([self.root, *(f"{_FOLDER}{part}" for part in key.split("/"))])

    def folders_above(self, key: str) -> list[str]:
        """The parent nodes, from the outermost to the innermost."""
        return [self.of_folder(ancestor) for ancestor in ancestors(key)]


def name_of(node: str) -> str:
    """The part of a key that a child node of a folder represents."""
    return node[1:] if node.startswith((_FOLDER, _LITERAL)) else node


def is_folder(node: str) -> bool:
    return node.startswith(_FOLDER)
