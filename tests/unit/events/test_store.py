"""The log on record, when storage or coordinator fail midway, on virtual time."""

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from stoker.core.errors import CoordinatorUnavailable, LeadershipLost, StorageUnavailable
from stoker.core.ids import Ids
from stoker.core.options import ByteSize
from stoker.events import layout
from stoker.events.event import EventId, GapReason, LoggedEvent
from stoker.events.options import EventOptions
from stoker.events.query import EventPage, EventQuery, answer
from stoker.events.store import MAX_CACHED_SEGMENTS, EventStore
from stoker.ha import keys
from stoker.ha.coordinator import Put
from stoker.ha.leadership import Leadership
from stoker.ha.memory import Loss, MemoryCoordination
from stoker.ha.record import encode
from stoker.ha.transaction import MAX_VALUE_BYTES
from stoker.storage.memory import MemoryStorage
from stoker.testing.leadership import seize_leadership
from stoker.testing.virtual_time import run_virtual
from unit.events.logged import event

DAY = 86_400_000


class Harness:
    """A coordinator and a storage, which outlive leaders, and the log of the present leader."""

    def __init__(self) -> None:
        self.coordination = MemoryCoordination()
        self.storage = MemoryStorage(lambda: 0)
        self.ids = Ids(random.Random(5))
        self.store: EventStore
        self.leadership: Leadership

    async def next_leader(self) -> EventStore:
        self.session = self.coordination.session()
        self.leadership = await seize_leadership(self.session, ids=self.ids)
        self.store = EventStore(self.leadership, self.storage, self.ids)
        return self.store

    async def append(self, *events: LoggedEvent) -> None:
        await self.store.append(events, settled=0)

    async def read(self, query: EventQuery | None = None) -> EventPage:
        """What a reader of a fresh leader sees."""
        state = await self.store.load()
        return await answer(query or EventQuery(oldest_first=True), state, self.store.read)

    async def numbers(self) -> list[int]:
        return [each.number for each in (await self.read()).events]

    @property
    def segments(self) -> list[str]:
        return sorted(self.storage.files)


Test = Callable[[Harness], Awaitable[None]]


def with_harness(test: Test) -> Callable[[], None]:
    @functools.wraps(test)
    def run() -> None:
        async def prepared() -> None:
            harness = Harness()
            await harness.next_leader()
            await test(harness)

        run_virtual(prepared)

    del run.__wrapped__  # type: ignore[attr-defined]
    return run


@pytest.fixture(autouse=True)
def _small_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "RECENT_BYTES", 600)
    monkeypatch.setattr(layout, "MOST_RECENT_BYTES", 1500)


@with_harness
async def test_events_become_segments_and_are_read_back_in_their_order(harness: Harness) -> None:
    for number in range(1, 20):
        await harness.append(event(1, number))
    assert len(harness.segments) >= 4
    await harness.next_leader()
    assert await harness.numbers() == list(range(1, 20))


@with_harness
async def test_a_write_of_unknown_outcome_is_not_repeated_in_the_log(harness: Harness) -> None:
    for loss in (Loss.AFTER_APPLYING, Loss.BEFORE_APPLYING):
        last = (await harness.store.load()).last.number
        events = [event(1, last + 1), event(1, last + 2)]
        harness.coordination.lose_next_commit(harness.session, loss)
        asyncio.get_running_loop().call_later(3, harness.coordination.heal, harness.session)
        if loss is Loss.BEFORE_APPLYING:
            with pytest.raises(CoordinatorUnavailable):
                await harness.append(*events)
        # The log repeats what it has no answer to; here also what had been written.
        await harness.append(*events, event(1, last + 3))
    assert await harness.numbers() == [1, 2, 3, 4, 5, 6]


@with_harness
async def test_a_write_whose_answer_never_came_is_found_before_the_next_one(
    harness: Harness,
) -> None:
    await harness.append(event(1, 1))
    harness.store._versions = None
    await harness.append(event(1, 1), event(1, 2))
    assert await harness.numbers() == [1, 2]


@with_harness
async def test_an_earlier_leader_appends_nothing_any_more(harness: Harness) -> None:
    """Not even as its last act, and its late segment is never pointed to."""
    await harness.append(event(1, 1))
    former = harness.store
    await harness.next_leader()
    with pytest.raises(LeadershipLost):
        await former.append([event(1, number) for number in range(2, 9)], settled=0)
    with pytest.raises(LeadershipLost):
        await former.append_last([event(1, 2)])
    await harness.append(event(2, 1))
    assert [each.id for each in (await harness.read()).events] == [(1, 1), (2, 1)]


@with_harness
async def test_a_leader_that_hands_over_writes_its_last_events(harness: Harness) -> None:
    await harness.append(event(1, 1))
    harness.leadership.grant.revoke()
    with pytest.raises(LeadershipLost):
        await harness.append(event(1, 2))
    await harness.store.append_last([event(1, 2)])
    await harness.next_leader()
    assert await harness.numbers() == [1, 2]


@with_harness
async def test_while_the_storage_is_away_the_coordinator_keeps_a_limited_number(
    harness: Harness,
) -> None:
    harness.storage.go_away()
    written = 0
    with pytest.raises(StorageUnavailable):
        for number in range(1, 50):
            await harness.append(event(1, number))
            written = number
    assert 2 < written < 20
    assert await harness.numbers() == list(range(1, written + 1))
    harness.storage.come_back()
    await harness.append(*(event(1, number) for number in range(1, 50)))
    assert await harness.numbers() == list(range(1, 50))


@with_harness
async def test_forgetting_removes_pointers_and_files_and_is_told(harness: Harness) -> None:
    for number in range(1, 20):
        await harness.append(event(1, number))
    before = len(harness.segments)
    await harness.store.forget(0, EventOptions(max_count=8))
    page = await harness.read(EventQuery(oldest_first=True, after=EventId(1, 1)))
    assert [gap.reason for gap in page.gaps] == [GapReason.FORGOTTEN]
    first = page.events[0].number
    assert 11 <= first <= 15
    assert [each.number for each in page.events] == list(range(first, 20))
    assert 0 < len(harness.segments) < before


@with_harness
async def test_a_segment_is_deleted_only_when_it_is_surely_forgotten(harness: Harness) -> None:
    """The write that forgets it was lost, and the recent events look the same before and after."""
    for number in range(1, 20):
        await harness.append(event(1, number))
    before = harness.segments
    harness.coordination.lose_next_commit(harness.session, Loss.BEFORE_APPLYING)
    asyncio.get_running_loop().call_later(3, harness.coordination.heal, harness.session)
    with pytest.raises(CoordinatorUnavailable):
        await harness.store.forget(0, EventOptions(max_count=8))
    assert harness.segments == before
    assert await harness.numbers() == list(range(1, 20))


@with_harness
async def test_old_segments_without_a_pointer_are_deleted_and_no_others(harness: Harness) -> None:
    for number in range(1, 9):
        await harness.append(event(1, number))
    known = harness.segments
    orphan, fresh = keys.event_segment(1, 1, "0" * 32), keys.event_segment(1, 2, "1" * 32)
    await harness.storage.write(orphan, b"{}")
    await harness.storage.write(fresh, b"{}")
    harness.storage.times[fresh] = DAY / 1000
    await harness.store.remove_orphans(DAY)
    assert harness.segments == sorted([*known, fresh])


@with_harness
async def test_a_damaged_index_is_made_again_from_the_files(harness: Harness) -> None:
    for number in range(1, 20):
        await harness.append(event(1, number))
    await harness.storage.write(keys.event_segment(1, 1, "0" * 32), b"no json")
    await harness.session.commit([Put(keys.EVENT_INDEX, b"no json")])
    await harness.next_leader()
    assert await harness.numbers() == list(range(1, 20))
    await harness.append(event(2, 1))
    later = EventStore(harness.leadership, harness.storage, harness.ids)
    assert len((await later.load()).index.segments) == len(harness.segments) - 1
    assert later._versions is not None
    assert not later._versions.is_index_damaged


@with_harness
async def test_a_damaged_record_of_recent_events_is_a_gap(harness: Harness) -> None:
    for number in range(1, 8):
        await harness.append(event(1, number))
    recent = harness.store.state
    assert recent is not None
    assert recent.recent
    await harness.session.commit([Put(keys.RECENT_EVENTS, b"\xff")])
    await harness.next_leader()
    await harness.append(event(1, 8))
    page = await harness.read()
    assert [gap.missing for gap in page.gaps] == [len(recent.recent)]
    assert page.events[-1].number == 8


@with_harness
async def test_a_damaged_segment_harms_no_other(harness: Harness) -> None:
    for number in range(1, 20):
        await harness.append(event(1, number))
    state = await harness.store.load()
    second = state.index.segments[1]
    harness.storage.files[second.path] = b"{}"
    await harness.next_leader()
    page = await harness.read()
    assert [(gap.reason, gap.missing) for gap in page.gaps] == [
        (GapReason.UNREADABLE, second.events)
    ]
    assert len(page.events) == 19 - second.events


@with_harness
async def test_a_master_keeps_few_events_in_memory_however_many_it_wrote(harness: Harness) -> None:
    for number in range(1, 100):
        await harness.append(event(1, number))
    await harness.read()
    assert len(harness.segments) > 3 * MAX_CACHED_SEGMENTS
    assert len(harness.store._cached) <= MAX_CACHED_SEGMENTS


@with_harness
async def test_the_records_of_a_full_log_fit_into_one_transaction(harness: Harness) -> None:
    """ZooKeeper takes packets of 1 MiB, the coordinator values of 512 KiB."""
    for number in range(1, 10):
        await harness.append(event(10**6, 10**9 + number, at=2 * 10**12))
    state = await harness.store.load()
    segment = state.index.segments[0]
    index = encode(layout.EventIndex(segments=(segment,) * layout.MAX_SEGMENTS))
    assert len(index) < MAX_VALUE_BYTES
    assert len(index) + 256 * 1024 < 1024 * 1024


@with_harness
async def test_a_log_is_kept_by_age(harness: Harness) -> None:
    for number in range(1, 20):
        await harness.append(event(1, number, at=number * DAY))
    await harness.store.forget(20 * DAY, EventOptions(max_age=timedelta(days=9)))
    assert 9 <= (await harness.numbers())[0] <= 13
    await harness.store.forget(20 * DAY, EventOptions(max_size=ByteSize(1)))
    state = harness.store.state
    assert state is not None
    assert state.index.segments == ()
    assert state.recent
