"""The contract of ReplacementStore, run on every coordinator and storage."""

import msgspec
import pytest

from builders import NEW, OLD, build_graph, build_replacement, build_streaming_vertices
from contract.backends import Backend
from stoker.core.errors import CorruptContent, KeyExists, LeadershipLost
from stoker.core.graph import JobGraph
from stoker.core.replacements import Replacement, ReplacementPhase
from stoker.ha import keys
from stoker.ha.coordinator import Create
from stoker.ha.stores.replacements import ReplacementStore, graph_path
from stoker.testing.leadership import seize_leadership


async def store_of_next_leader(backend: Backend) -> ReplacementStore:
    leadership = await seize_leadership(backend.coordinator, ids=backend.ids)
    return ReplacementStore(leadership, backend.storage)


def plan(trigger_id: str = "d" * 32) -> Replacement:
    pointer = graph_path(OLD, trigger_id)
    return build_replacement(trigger_id=trigger_id, pointer=pointer, began=1, changed=1)


def graph() -> JobGraph:
    return build_graph(*build_streaming_vertices(), job_id=NEW, name="clicks")


async def test_a_replacement_is_stored_with_its_graph_until_it_is_removed(backend: Backend):
    store = await store_of_next_leader(backend)
    await store.create(plan(), graph())
    with pytest.raises(KeyExists):
        await store.create(msgspec.structs.replace(plan(), order="1"), graph())
    following = msgspec.structs.replace(plan(), phase=ReplacementPhase.STARTING, savepoint="/s")
    await store.put(following)
    await store.create(plan("e" * 32), None)
    later = await store_of_next_leader(backend)
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
    former = await store_of_next_leader(backend)
    await former.create(plan(), graph())
    await store_of_next_leader(backend)
    with pytest.raises(LeadershipLost):
        await former.put(msgspec.structs.replace(plan(), phase=ReplacementPhase.STARTING))
    with pytest.raises(LeadershipLost):
        await former.create(plan("e" * 32), None)
    assert await (await store_of_next_leader(backend)).all() == [plan()]


async def test_an_unreadable_replacement_record_harms_no_other(backend: Backend):
    store = await store_of_next_leader(backend)
    await store.create(plan(), graph())
    await backend.coordinator.commit([Create(keys.replacement(OLD, "f" * 32), b"{")])
    assert await store.all() == [plan()]
