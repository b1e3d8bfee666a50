"""A storage that measures its operations."""

from collections.abc import Mapping
from pathlib import Path

from stoker.core.errors import StorageUnavailable
from stoker.metrics.catalogue import STORAGE_DURATION, STORAGE_ERRORS
from stoker.metrics.operations import OperationMetrics
from stoker.metrics.registry import MetricGroup
from stoker.storage.contract import Storage


class MeasuredStorage:
    def __init__(self, storage: Storage, metrics: MetricGroup) -> None:
        self._storage = storage
        self._operations = OperationMetrics(
            metrics, STORAGE_DURATION, STORAGE_ERRORS, failures=(StorageUnavailable,)
        )

    async def write(self, path: str, content: bytes) -> None:
        await self._operations.measure("write", lambda: self._storage.write(path, content))

    async def create(self, path: str, content: bytes) -> None:
        await self._operations.measure("create", lambda: self._storage.create(path, content))

    async def read(self, path: str, *, limit: int | None = None) -> bytes:
        return await self._operations.measure("read", lambda: self._storage.read(path, limit=limit))

    async def exists(self, path: str) -> bool:
        return await self._operations.measure("exists", lambda: self._storage.exists(path))

    async def size(self, path: str) -> int:
        return await self._operations.measure("size", lambda: self._storage.size(path))

    async def has_files(self, prefix: str) -> bool:
        return await self._operations.measure("has_files", lambda: self._storage.has_files(prefix))

    async def total_size(self, prefix: str) -> int:
        return await self._operations.measure(
            "total_size", lambda: self._storage.total_size(prefix)
        )

    async def free_bytes(self) -> int | None:
        return await self._operations.measure("free_bytes", self._storage.free_bytes)

    async def list(self, prefix: str) -> list[str]:
        return await self._operations.measure("list", lambda: self._storage.list(prefix))

    async def modified(self, prefix: str) -> dict[str, float]:
        return await self._operations.measure("modified", lambda: self._storage.modified(prefix))

    async def delete(self, path: str) -> None:
        await self._operations.measure("delete", lambda: self._storage.delete(path))

    async def delete_tree(self, prefix: str) -> None:
        await self._operations.measure("delete_tree", lambda: self._storage.delete_tree(prefix))

    async def upload(self, source: Path, path: str) -> None:
        await self._operations.measure("upload", lambda: self._storage.upload(source, path))

    async def adopt(self, source: Path, path: str) -> None:
        await self._operations.measure("adopt", lambda: self._storage.adopt(source, path))

    async def download(self, path: str, target: Path) -> None:
        await self._operations.measure("download", lambda: self._storage.download(path, target))

    async def pin(self, targets: Mapping[str, str]) -> None:
        await self._operations.measure("pin", lambda: self._storage.pin(targets))

    def url(self, path: str) -> str:
        return self._storage.url(path)
