"""Every pair of a coordinator and a storage on which the stores run."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker.core.ids import Ids
from stoker.ha.coordinator import Coordinator
from stoker.ha.memory import MemoryCoordination
from stoker.ha.open import open_coordinator
from stoker.storage.contract import Storage
from stoker.storage.memory import MemoryStorage
from stoker.storage.open import open_storage

KINDS = ("memory", "embedded", "zookeeper")


@dataclass
class Backend:
    coordinator: Coordinator
    storage: Storage
    ids: Ids


@asynccontextmanager
async def open_backend(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Backend]:
    """The kind is the parameter of the request."""
    ids = Ids(random.Random(3))
    if request.param == "memory":
        coordinator: Coordinator = MemoryCoordination().session()
        storage: Storage = MemoryStorage()
    else:
        url = f"embedded://{folder}/coordinator"
        if request.param == "zookeeper":
            url = request.getfixturevalue("zookeeper_url")
        coordinator = await open_coordinator(url, ids=ids)
        storage = open_storage(str(folder / "storage"))
    yield Backend(coordinator, storage, ids)
    await coordinator.close()
