"""One ZooKeeper server for the tests of this folder; each test has a root path of its own."""

import uuid
from collections.abc import Iterator

import pytest

from stoker.processes.local.zookeeper import LocalZooKeeper


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    with LocalZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def zookeeper_url(zookeeper: LocalZooKeeper) -> str:
    return zookeeper.url(f"tests/{uuid.uuid4().hex}")
