"""One ZooKeeper server for the tests of this folder, and what several of them run on.

Each test has a root path of its own at the server.
"""

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from contract.backends import KINDS, Backend, open_backend
from stoker.processes.local.zookeeper import LocalZooKeeper


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    with LocalZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def zookeeper_url(zookeeper: LocalZooKeeper) -> str:
    return zookeeper.url(f"tests/{uuid.uuid4().hex}")


@pytest.fixture(params=KINDS)
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    async with open_backend(request, tmp_path) as backend:
        yield backend
