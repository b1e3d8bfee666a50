"""Storage in memory, for tests and simulations: no files, no threads, faults on demand."""

import asyncio
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from stoker.aio.clock import WallClock, system_wall_clock
from stoker.core.errors import KeyExists
from stoker.storage.contract import (
    checked_folder,
    checked_path,
    no_such_file,
    storage_unavailable,
    too_large,
)


class MemoryStorage:
    """One object is shared by all processes of a simulation."""

    def __init__(self, wall_clock: WallClock = system_wall_clock) -> None:
        self.files: dict[str, bytes] = {}
        self.times: dict[str, float] = {}
        self.wall_clock = wall_clock
        self.free: int | None = None
        """What `free_bytes` answers."""
        self._failing: dict[str, list[int]] = {}
        self._away: int | None = None

    def fail_next(self, operation: str, code: int = errno.EIO) -> None:
        """Make the next call of that method raise StorageUnavailable without effect."""
        self._failing.setdefault(operation, []).append(code)

    def go_away(self, code: int = errno.EIO) -> None:
        """Make every call raise StorageUnavailable until `come_back`."""
        self._away = code

    def come_back(self) -> None:
        self._away = None

    async def write(self, path: str, content: bytes) -> None:
        await self._turn("write", checked_path(path))
        self._put(path, bytes(content))

    async def create(self, path: str, content: bytes) -> None:
        await self._turn("create", checked_path(path))
        if path in self.files:
            raise KeyExists(self.url(path))
        self._put(path, bytes(content))

    async def read(self, path: str, *, limit: int | None = None) -> bytes:
        await self._turn("read", checked_path(path))
        content = self._content(path)
        if limit is not None and len(content) > limit:
            raise too_large(self.url(path), limit)
        return content

    async def exists(self, path: str) -> bool:
        await self._turn("exists", checked_path(path))
        return path in self.files

    async def size(self, path: str) -> int:
        await self._turn("size", checked_path(path))
        return len(self._content(path))

    async def has_files(self, prefix: str) -> bool:
        await self._turn("has_files", checked_folder(prefix))
        return bool(self._below(prefix))

    async def total_size(self, prefix: str) -> int:
        await self._turn("total_size", checked_folder(prefix))
        return sum(len(self.files[path]) for path in self._below(prefix))

    async def free_bytes(self) -> int | None:
        return self.free

    async def list(self, prefix: str) -> list[str]:
        await self._turn("list", checked_folder(prefix))
        return list(self._below(prefix))

    async def modified(self, prefix: str) -> dict[str, float]:
        await self._turn("modified", checked_folder(prefix))
        # A file that a test added directly is as old as its first listing.
        return {p: self.times.setdefault(p, self._now()) for p in self._below(prefix)}

    async def delete(self, path: str) -> None:
        await self._turn("delete", checked_path(path))
        self.files.pop(path, None)
        self.times.pop(path, None)

    async def delete_tree(self, prefix: str) -> None:
        await self._turn("delete_tree", checked_path(prefix))
        for path in self._below(prefix):
            del self.files[path]
            self.times.pop(path, None)

    async def upload(self, source: Path, path: str) -> None:
        await self._turn("upload", checked_path(path))
        self._put(path, source.read_bytes())  # noqa: ASYNC240 - no threads in a simulation

    async def adopt(self, source: Path, path: str) -> None:
        await self.upload(source, path)

    async def download(self, path: str, target: Path) -> None:
        await self._turn("download", checked_path(path))
        target.write_bytes(self._content(path))  # noqa: ASYNC240 - no threads in a simulation

    async def pin(self, targets: Mapping[str, str]) -> None:
        for source, target in targets.items():
            await self._turn("pin", checked_path(source))
            self._put(checked_path(target), self._content(source))

    def url(self, path: str) -> str:
        return f"memory:///{checked_path(path)}"

    async def _turn(self, operation: str, path: str) -> None:
        """Let other tasks run, as real I/O would, then fail if a test has asked for it."""
        await asyncio.sleep(0)
        codes = self._failing.get(operation)
        code = codes.pop(0) if codes else self._away
        if code is not None:
            raise storage_unavailable(
                operation, f"memory:///{path}", OSError(code, os.strerror(code))
            )

    def _put(self, path: str, content: bytes) -> None:
        self.files[path] = content
        self.times[path] = self._now()

    def _now(self) -> float:
        return self.wall_clock() / 1000

    def _content(self, path: str) -> bytes:
        try:
            return self.files[path]
        except KeyError:
            raise no_such_file(self.url(path)) from None

    def _below(self, prefix: str) -> tuple[str, ...]:
        below = (path for path in self.files if not prefix or path.startswith(f"{prefix}/"))
        return tuple(sorted(below))
