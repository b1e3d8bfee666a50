"""The contract of EventStore, run on every coordinator and storage."""

import pytest

from contract.backends import Backend
from stoker.core.errors import LeadershipLost
from stoker.events import layout
from stoker.events.event import EventId
from stoker.events.options import EventOptions
from stoker.events.query import EventPage, EventQuery, answer
from stoker.events.store import EventStore
from stoker.ha import keys
from stoker.testing.leadership import seize_leadership
from unit.events.logged import event


@pytest.fixture(autouse=True)
def _small_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "RECENT_BYTES", 600)


async def store_of_next_leader(backend: Backend) -> EventStore:
    leadership = await seize_leadership(backend.coordinator, ids=backend.ids)
    store = EventStore(leadership, backend.storage, backend.ids)
    await store.load()
    return store


async def read(store: EventStore) -> EventPage:
    assert store.state is not None
    query = EventQuery(oldest_first=True, limit=1000)
    return await answer(query, store.state, store.read)


async def test_events_are_there_for_the_next_leader_in_their_order(backend: Backend):
    first = await store_of_next_leader(backend)
    for number in range(1, 15):
        await first.append([event(1, number)], settled=number)
    second = await store_of_next_leader(backend)
    assert second.state == first.state
    await second.append([event(2, 1)], settled=20)
    page = await read(await store_of_next_leader(backend))
    expected = [*(EventId(1, number) for number in range(1, 15)), EventId(2, 1)]
    assert [each.id for each in page.events] == expected
    assert page.gaps == ()
    assert len(await backend.storage.list(keys.EVENTS_FOLDER)) > 2


async def test_a_previous_leader_neither_appends_nor_forgets(backend: Backend):
    former = await store_of_next_leader(backend)
    for number in range(1, 15):
        await former.append([event(1, number)], settled=0)
    latter = await store_of_next_leader(backend)
    with pytest.raises(LeadershipLost):
        await former.append([event(1, 15)], settled=0)
    with pytest.raises(LeadershipLost):
        await former.append_last([event(1, 15)])
    with pytest.raises(LeadershipLost):
        await former.forget(0, EventOptions(max_count=1))
    assert len((await read(latter)).events) == 14


async def test_what_is_forgotten_leaves_no_file(backend: Backend):
    store = await store_of_next_leader(backend)
    for number in range(1, 15):
        await store.append([event(1, number)], settled=0)
    await store.forget(0, EventOptions(max_count=1))
    later = await store_of_next_leader(backend)
    assert later.state is not None
    assert later.state.index.segments == ()
    assert await backend.storage.list(keys.EVENTS_FOLDER) == []
    assert later.state.index.forgotten is not None
