"""Which places a request may name for savepoints, and how they are reached.

A path in a request is opened by the master, as its user and from its machine. A URL of any kind
would let a client send requests into the network of the master, and wait for answers that never
come. So only local directories and the kinds of storage that the operator has named are opened, and
all of them on threads of their own, with time limits. A caller that may only read sees only what is
below the directories of the configuration.
"""

from collections.abc import Iterable
from pathlib import Path
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from stoker.core.errors import Forbidden
from stoker.storage.contract import Storage
from stoker.storage.open import local_directory, open_place
from stoker.storage.threads import ForeignThreads, StorageThreads, on_common_thread

_CHAIN = "::"
"""fsspec opens `a::b` as b inside of a."""


class Places:
    def __init__(
        self,
        *,
        configured: Iterable[str] = (),
        schemes: Iterable[str] = (),
        off_loop: StorageThreads = on_common_thread,
    ) -> None:
        """`configured`: directories of the configuration; their kinds of storage are allowed."""
        roots = tuple(configured)
        self._roots = tuple(map(normal_form, roots))
        self._schemes = {"file", *map(str.lower, schemes), *map(_scheme, roots)}
        self._off_loop = off_loop

    def open(self, url: str) -> Storage:
        """The storage at the URL; nothing is reached before its first call.

        Raises Forbidden for a kind of storage that the operator has not named, and InvalidOption
        for what is no URL of a storage.
        """
        self._check_kind(url)
        return open_place(url, off_loop=self._off_loop)

    def open_configured(self, url: str) -> Storage:
        """Like `open`, for callers who may see only the directories of the configuration."""
        self._check_kind(url)
        root = self._root_of(url)
        return open_place(
            url, off_loop=self._off_loop, within=Path(root) if root[0] == "/" else None
        )

    def check_configured(self, url: str) -> None:
        """Raise Forbidden for a place outside of the directories of the configuration."""
        self._root_of(url)

    def _check_kind(self, url: str) -> None:
        if local_directory(url) is not None:
            return
        scheme = _scheme(url)
        if scheme not in self._schemes:
            raise Forbidden(
                f"storage of the kind {scheme} is not opened for requests; an operator allows it "
                f"with savepoint.allowed-schemes: {scheme}"
            )
        if _CHAIN in url:
            raise Forbidden(f"{url!r} chains several kinds of storage; name one of them")

    def _root_of(self, url: str) -> str:
        place = normal_form(url)
        for root in self._roots:
            if f"{place}/".startswith(f"{root.rstrip('/')}/") and ".." not in place.split("/"):
                return root
        raise Forbidden(
            "a token of the role read or submit sees savepoints only below the directories of the "
            "configuration: execution.checkpointing.savepoint-dir, execution.checkpointing.dir and "
            "the storage of the cluster"
        )


def foreign_places(configured: Iterable[str], schemes: Iterable[str]) -> Places:
    """The places of a master."""
    return Places(configured=configured, schemes=schemes, off_loop=ForeignThreads())


def normal_form(url: str) -> str:
    """One text for each place, whether a local directory is given as a path or as a URL."""
    if url.startswith("/"):
        path = url
    elif (parts := urlsplit(url)).scheme == "file":
        path = unquote(parts.path)
    else:
        return url.rstrip("/")
    # POSIX, and so normpath, treats two leading slashes as special.
    return normpath(f"/{path.lstrip('/')}")


def _scheme(url: str) -> str:
    return urlsplit(url).scheme.lower() or "file"
