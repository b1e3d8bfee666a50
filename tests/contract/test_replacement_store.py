"""The contract of ReplacementStore, run on every coordinator and storage."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from builders import build_graph, build_streaming_vertices
from stoker.core.errors import CorruptContent, KeyExists, LeadershipLost
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids, JobId
from stoker.core.replacements import Replacement, ReplacementKind, ReplacementPhase
from stoker.ha import keys
from stoker.ha.coordinator import Coordinator, Create
from stoker.ha.memory import MemoryCoordination
from stoker.ha.open import open_coordinator
from stoker.ha.stores.replacements import ReplacementStore, graph_path
from stoker.storage.contract import Storage
from stoker.storage.memory import MemoryStorage
from stoker.storage.open import open_storage
from stoker.testing.leadership import seize_leadership

OLD, NEW, BACK = JobId("a" * 32), JobId("b" * 32), JobId("c" * 32)


@dataclass
class Backend:
    coordinator: Coordinator
    storage: Storage
    ids: Ids

    async def store(self) -> ReplacementStore:
        """The store of a leader that was just elected."""
        return ReplacementStore(
            await seize_leadership(self.coordinator, ids=self.ids), self.storage
        )


@pytest.fixture(params=["memory", "embedded", "zookeeper"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    ids = Ids(random.Random(3))
    if request.param == "memory":
        coordinator: Coordinator = MemoryCoordination().session()
        storage: Storage = MemoryStorage()
    else:
        url = f"embedded://{tmp_path}/coordinator"
        if request.param == "zookeeper":
            url = request.getfixturevalue("zookeeper_url")
        coordinator = await open_coordinator(url, ids=ids)
        storage = open_storage(str(tmp_path / "storage"))
    yield Backend(coordinator, storage, ids)
    await coordinator.close()


def plan(trigger_id: str = "d" * 32) -> Replacement:
    return Replacement(
        job_id=OLD,
        trigger_id=trigger_id,
        kind=ReplacementKind.UPGRADE,
        digest="",
        new_id=NEW,
        back_id=BACK,
        directory="/saved",
        order="0",
        began=1,
        changed=1,
        pointer=graph_path(OLD, trigger_id),
    )


def graph() -> JobGraph:
    return build_graph(*build_streaming_vertices(), job_id=NEW, name="clicks")


async def test_a_replacement_is_stored_with_its_graph_until_it_is_removed(backend: Backend):
    store = await backend.store()
    await store.create(plan(), graph())
    with pytest.raises(KeyExists):
        await store.create(msgspec.structs.replace(plan(), order="1"), graph())
    following = msgspec.structs.replace(plan(), phase=ReplacementPhase.STARTING, savepoint="/s")
    await store.put(following)
    await store.create(plan("e" * 32), None)
    later = await backend.store()
    assert sorted(await later.all(), key=lambda each: each.trigger_id) == [
        following,
        plan("e" * 32),
    ]
    assert await later.graph(following) == graph()
    await later.remove(following)
    await later.remove(following)
    assert await later.all() == [plan("e" * 32)]
    with pytest.raises(CorruptContent, match="is gone"):
        await later.graph(following)


async def test_a_previous_leader_neither_begins_nor_continues_a_replacement(backend: Backend):
    former = await backend.store()
    await former.create(plan(), graph())
    await backend.store()
    with pytest.raises(LeadershipLost):
        await former.put(msgspec.structs.replace(plan(), phase=ReplacementPhase.STARTING))
    with pytest.raises(LeadershipLost):
        await former.create(plan("e" * 32), None)
    assert await (await backend.store()).all() == [plan()]


async def test_an_unreadable_replacement_record_harms_no_other(backend: Backend):
    store = await backend.store()
    await store.create(plan(), graph())
    await backend.coordinator.commit([Create(keys.replacement(OLD, "f" * 32), b"{")])
    assert await store.all() == [plan()]
