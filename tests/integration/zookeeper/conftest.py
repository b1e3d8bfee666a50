"""One ensemble of three real servers for all tests of this folder; all run when a test starts."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta

import pytest

from integration.zookeeper.proxy import Proxy, proxy_to
from stoker.core.ids import Ids
from stoker.ha.coordinator import ConnectionState, Coordinator
from stoker.ha.open import open_coordinator
from stoker.ha.zookeeper.options import ZooKeeperOptions
from stoker.processes.local.zookeeper import LocalZooKeeper

SESSION_SECONDS = 2.0
OPTIONS = ZooKeeperOptions(
    session_timeout=timedelta(seconds=SESSION_SECONDS), connection_timeout=timedelta(seconds=10)
)
SERVERS = 3

OpenSession = Callable[..., Awaitable[Coordinator]]


async def wait_for_state(session: Coordinator, state: ConnectionState) -> None:
    async with asyncio.timeout(15):
        while (known := session.state) is not state:
            await session.wait_for_state_other_than(known)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    with LocalZooKeeper(tmp_path_factory.mktemp("ensemble"), servers=SERVERS) as ensemble:
        yield ensemble


@pytest.fixture
def ensemble(servers: LocalZooKeeper) -> Iterator[LocalZooKeeper]:
    yield servers
    for index in range(SERVERS):
        if servers.is_running(index):
            servers.thaw(index)
    servers.start()
    servers.wait_until_ready()


@pytest.fixture
def root() -> str:
    return f"tests/{uuid.uuid4().hex}"


@pytest.fixture
async def open_session(ensemble: LocalZooKeeper, root: str) -> AsyncIterator[OpenSession]:
    opened: list[Coordinator] = []

    async def open_another(
        *, at: str | None = None, auto_renewing: bool = False, options: ZooKeeperOptions = OPTIONS
    ) -> Coordinator:
        url = f"zookeeper://{at}/{root}" if at else ensemble.url(root)
        opened.append(
            await open_coordinator(url, ids=Ids(), auto_renewing=auto_renewing, options=options)
        )
        return opened[-1]

    yield open_another
    await asyncio.gather(*(session.close() for session in opened))


@pytest.fixture
async def proxy(ensemble: LocalZooKeeper) -> AsyncIterator[Proxy]:
    async with proxy_to(ensemble.addresses[0]) as one:
        yield one
