"""Fixtures: a storage in memory, jobs, and uploads."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker.blob.options import BlobOptions
from stoker.blob.server import BlobServer
from stoker.blob.transfer import inline
from stoker.core.ids import JobId
from stoker.storage.memory import MemoryStorage


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    return tmp_path / "incoming"


@pytest.fixture
async def server(storage: MemoryStorage, incoming: Path) -> AsyncIterator[BlobServer]:
    async with BlobServer(storage, incoming, BlobOptions(), off_loop=inline) as server:
        yield server
    assert list(incoming.iterdir()) == []


@pytest.fixture
def job() -> JobId:
    return JobId("a" * 32)


@pytest.fixture
def other_job() -> JobId:
    return JobId("b" * 32)


class Upload:
    """Content that arrives in pieces, as from a network."""

    def __init__(self, content: bytes, *, breaks_after: int | None = None) -> None:
        self.content = content
        self.sha256 = hashlib.sha256(content).hexdigest()
        self._breaks_after = breaks_after

    async def chunks(self, size: int = 7) -> AsyncIterator[bytes]:
        for start in range(0, len(self.content), size):
            if self._breaks_after is not None and start >= self._breaks_after:
                raise ConnectionResetError("the client went away")
            yield self.content[start : start + size]


@pytest.fixture
def upload() -> type[Upload]:
    return Upload
