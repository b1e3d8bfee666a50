"""The location of a savepoint: a directory in a storage, given by a URL or an absolute path."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from stoker.aio.threads import LimitedThreads
from stoker.core.errors import InvalidInput, NotFound, UnusableSavepoint
from stoker.savepoints.manifest import (
    LARGEST_MANIFEST,
    MANIFEST,
    SavepointManifest,
    decode_manifest,
)
from stoker.savepoints.options import SavepointOptions
from stoker.storage.contract import Storage
from stoker.storage.open import open_place

P = ParamSpec("P")
T = TypeVar("T")

OpenStorage = Callable[[str], Storage]
"""Opens the storage behind a URL: `Places.open` of a master, `open_place` in the command line."""


@dataclass(frozen=True, kw_only=True)
class SavepointLocation:
    """A savepoint: the storage of its parent directory, and its name there."""

    parent: Storage
    name: str
    url: str

    def inside(self, path: str) -> str:
        return f"{self.name}/{path}"


def parent_and_name(path: str) -> tuple[str, str]:
    """Split a path: `file:///dir/savepoint-1` is `savepoint-1` in `file:///dir`."""
    trimmed = path.rstrip("/").removesuffix(f"/{MANIFEST}").rstrip("/")
    above, _, name = trimmed.rpartition("/")
    if not name or name in (".", "..") or not above or above.endswith(":/"):
        raise InvalidInput(
            f"{path!r} is not the directory of a savepoint; write an absolute path or a URL, "
            "such as /data/savepoints/savepoint-1a2b3c-0d4e5f"
        )
    return above, name


def locate(path: str, open_storage: OpenStorage) -> SavepointLocation:
    above, name = parent_and_name(path)
    return SavepointLocation(parent=open_storage(above), name=name, url=f"{above}/{name}")


_DECODING = LimitedThreads("decode-savepoint", limit=1)
LARGEST_ON_LOOP = 64 * 1024
"""In bytes: larger manifests and graphs are not encoded or decoded on the loop."""


async def off_loop_if_large(
    size: int, convert: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """What `convert` returns, which takes a time that grows with the size of a manifest or graph.

    It has a thread of its own: clients can name many large manifests, and the common threads are
    there for others.
    """
    if size <= LARGEST_ON_LOOP:
        return convert(*args, **kwargs)
    return await _DECODING.run(convert, *args, **kwargs)


async def read_manifest(location: SavepointLocation) -> SavepointManifest:
    try:
        content = await location.parent.read(location.inside(MANIFEST), limit=LARGEST_MANIFEST)
    except NotFound:
        raise UnusableSavepoint(location.url, await _why_no_manifest(location)) from None
    return await off_loop_if_large(len(content), decode_manifest, content, location.url)


async def _why_no_manifest(location: SavepointLocation) -> str:
    if await location.parent.has_files(location.name):
        return (
            f"it has no {MANIFEST}: it was never completed, or this is not a savepoint; "
            "stoker savepoint list shows those that are"
        )
    return "there is no such directory; check the path, and whether it is mounted here"


@dataclass(frozen=True, kw_only=True)
class SavepointServices:
    """What taking and restoring savepoints needs."""

    options: SavepointOptions = field(default_factory=SavepointOptions)
    open_storage: OpenStorage = open_place
