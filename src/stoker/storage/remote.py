"""Storage on an object store, through fsspec.

Object stores write a file whole or not at all, and offer a conditional write for `create`. It
reaches them only if the fsspec driver implements `pipe_file(…, mode="create")` by it. fsspec's
default looks whether the file exists and then writes, so that two writers may both succeed; drivers
older than this mode may ignore it. Such a file system must not be opened here for the storage of a
cluster. Nothing checks that, because two writers that meet at the wrong moment cannot be tried out.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import fsspec

from stoker.core.errors import InvalidOption, KeyExists, StokerError
from stoker.storage.contract import (
    checked_folder,
    checked_path,
    no_such_file,
    storage_unavailable,
    too_large,
)
from stoker.storage.threads import StorageThreads, on_common_thread

T = TypeVar("T")

_MODIFIED = ("LastModified", "last_modified", "mtime")
"""Names of the time of the last write in the listings of drivers."""


def open_remote(url: str) -> "FsspecStorage":
    filesystem, root = _connect(url)
    return FsspecStorage(filesystem, root, url)


def open_remote_later(url: str, off_loop: StorageThreads) -> "FsspecStorage":
    """The driver is loaded, and may connect, with the first call and off the loop.

    Some drivers connect when they are made, and wait for as long as the other end likes.
    """
    return FsspecStorage(None, "", url, off_loop=off_loop)


def _connect(url: str) -> tuple[Any, str]:
    try:
        filesystem, root = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        scheme = url.partition(":")[0]
        raise InvalidOption(
            f"no storage for {url!r}: {error}; use file:///directory, or install the fsspec "
            f"driver for {scheme}",
            url=url,
        ) from error
    return filesystem, root


class FsspecStorage:
    """Blocking calls run on the threads of `off_loop`, by default the common ones of the loop.

    Without a file system it connects to the URL with its first call.
    """

    def __init__(
        self, filesystem: Any, root: str, url: str, *, off_loop: StorageThreads = on_common_thread
    ) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._url = url.rstrip("/")
        self._off_loop = off_loop

    async def write(self, path: str, content: bytes) -> None:
        await self._do_long(
            "write", path, lambda: self._filesystem.pipe_file(self._target(path), content)
        )

    async def create(self, path: str, content: bytes) -> None:
        def create() -> None:
            self._filesystem.pipe_file(self._target(path), content, mode="create")

        try:
            await self._do_long("create", path, create)
        except FileExistsError:
            raise KeyExists(self.url(path)) from None

    async def read(self, path: str, *, limit: int | None = None) -> bytes:
        def read() -> bytes:
            target = self._target(path)
            if limit is not None and self._filesystem.info(target)["size"] > limit:
                raise too_large(self.url(path), limit)
            content: bytes = self._filesystem.cat_file(target)
            return content

        return await self._do("read", path, read)

    async def exists(self, path: str) -> bool:
        found = await self._do("find", path, lambda: self._filesystem.isfile(self._target(path)))
        return bool(found)

    async def size(self, path: str) -> int:
        facts = await self._do("find", path, lambda: self._filesystem.info(self._target(path)))
        return int(facts["size"])

    async def has_files(self, prefix: str) -> bool:
        def look() -> bool:
            walk = self._filesystem.walk(self._folder(prefix))
            return any(files for _, _, files in walk)

        return await self._do("list", prefix, look)

    async def total_size(self, prefix: str) -> int:
        def look() -> int:
            found = self._filesystem.find(self._folder(prefix), detail=True)
            return sum(int(facts["size"] or 0) for facts in found.values())

        return await self._do("list", prefix, look)

    async def free_bytes(self) -> int | None:
        return None

    async def list(self, prefix: str) -> list[str]:
        found = await self._do("list", prefix, lambda: self._filesystem.find(self._folder(prefix)))
        return sorted(str(name).removeprefix(f"{self._root}/") for name in found)

    async def modified(self, prefix: str) -> dict[str, float]:
        def look() -> dict[str, float]:
            times: dict[str, float] = {}
            found = self._filesystem.find(self._folder(prefix), detail=True)
            for name, facts in sorted(found.items()):
                with contextlib.suppress(FileNotFoundError):  # Deleted since it was listed.
                    times[name.removeprefix(f"{self._root}/")] = self._modified(name, facts)
            return times

        return await self._do("tell the age of files in", prefix, look)

    async def delete(self, path: str) -> None:
        await self._remove(path, recursive=False)

    async def delete_tree(self, prefix: str) -> None:
        await self._remove(prefix, recursive=True)

    async def upload(self, source: Path, path: str) -> None:
        await self._do_long(
            "write", path, lambda: self._filesystem.put_file(str(source), self._target(path))
        )

    async def adopt(self, source: Path, path: str) -> None:
        await self.upload(source, path)

    async def download(self, path: str, target: Path) -> None:
        unfinished = target.with_name(f".{target.name}.unfinished")

        def download() -> None:
            try:
                self._filesystem.get_file(self._target(path), str(unfinished))
                unfinished.replace(target)
            finally:
                unfinished.unlink(missing_ok=True)

        await self._do_long("read", path, download)

    async def pin(self, targets: Mapping[str, str]) -> None:
        def copy() -> None:
            for source, target in targets.items():
                self._filesystem.cp_file(self._target(source), self._target(target))

        await self._do_long("pin", next(iter(targets), ""), copy)

    def url(self, path: str) -> str:
        return f"{self._url}/{checked_path(path)}"

    def _target(self, path: str) -> str:
        return f"{self._root}/{checked_path(path)}"

    def _folder(self, prefix: str) -> str:
        return f"{self._root}/{checked_folder(prefix)}" if prefix else self._root

    def _modified(self, target: str, facts: Mapping[str, Any]) -> float:
        """From the listing if possible, because one more request for each file is slow."""
        listed = [facts[name] for name in _MODIFIED if isinstance(facts.get(name), datetime)]
        try:
            at: datetime = listed[0] if listed else self._filesystem.modified(target)
        except NotImplementedError as error:
            # Some drivers do not know the age. Fail, lest a file without an age counts as old.
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)) from error
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()

    async def _remove(self, path: str, *, recursive: bool) -> None:
        def remove() -> None:
            target = self._target(path)
            with contextlib.suppress(FileNotFoundError):  # Another process may be faster.
                if self._filesystem.exists(target):
                    self._filesystem.rm(target, recursive=recursive)

        await self._do_long("delete", path, remove)

    async def _do_long(self, doing: str, path: str, work: Callable[[], T]) -> T:
        return await self._do(doing, path, work, is_long=True)

    async def _do(
        self, doing: str, path: str, work: Callable[[], T], *, is_long: bool = False
    ) -> T:
        try:
            return await self._off_loop(partial(self._uncached, work), is_long=is_long)
        except (FileExistsError, StokerError):
            raise
        except FileNotFoundError as error:
            raise no_such_file(f"{self._url}/{path}") from error
        except OSError as error:
            raise storage_unavailable(doing, f"{self._url}/{path}", error) from error
        # Drivers let errors of the libraries below them pass, which have no base class in common.
        except Exception as error:
            failure = OSError(errno.EIO, f"{type(error).__name__}: {error}")
            raise storage_unavailable(doing, f"{self._url}/{path}", failure) from error

    def _uncached(self, work: Callable[[], T]) -> T:
        """Bypass the cache of listings, because other processes write here too."""
        if self._filesystem is None:
            self._filesystem, root = _connect(self._url)
            self._root = root.rstrip("/")
        self._filesystem.invalidate_cache()
        return work()
