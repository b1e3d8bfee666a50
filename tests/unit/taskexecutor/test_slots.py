"""The slots of one task executor and their record on disk."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.errors import Conflict, NotFound
from stoker.core.ids import AllocationId, JobId
from stoker.taskexecutor.slots import (
    FileSlotStore,
    PersistentSlotTable,
    SavedSlot,
    SlotTable,
    SlotUse,
)
from stoker.testing.process_view import ProcessSlots

ONE, TWO = JobId("1" * 32), JobId("2" * 32)
A, B = AllocationId("a"), AllocationId("b")


def test_a_repeated_request_is_harmless_and_a_different_one_is_a_conflict() -> None:
    """A slot that does not exist is "not found" (X-TM-03)."""
    table = SlotTable(2)
    assert table.reserve(ONE, A, 0, 1.0)
    assert not table.reserve(ONE, A, 0, 2.0)
    with pytest.raises(Conflict, match="slot 0 is held by job"):
        table.reserve(TWO, B, 0, 3.0)
    with pytest.raises(NotFound, match="no slot 2 here"):
        table.reserve(TWO, B, 2, 3.0)


def test_a_reserved_slot_is_overdue_when_no_job_master_accepts_it_in_time() -> None:
    """An accepted slot never is (TM-11)."""
    table = SlotTable(2)
    table.reserve(ONE, A, 0, 1.0)
    table.reserve(ONE, B, 1, 1.0)
    table.activate(B, 2.0)
    assert table.overdue(10.9, 10) == []
    assert [held.id for held in table.overdue(11.0, 10)] == [A]


def test_slots_without_a_job_master_are_reserved_again_and_can_be_overdue() -> None:
    """The time counts from the loss of the job master (TM-12)."""
    table = SlotTable(1)
    table.reserve(ONE, A, 0, 0.0)
    table.activate(A, 0.0)
    assert table.overdue(99, 10) == []
    table.deactivate(ONE, 100.0)
    assert table.overdue(109, 10) == []
    assert [held.id for held in table.overdue(110, 10)] == [A]


def test_a_slot_that_was_given_up_cannot_be_activated() -> None:
    table = SlotTable(1)
    table.reserve(ONE, A, 0, 0.0)
    table.release(A)
    with pytest.raises(NotFound):
        table.activate(A, 1.0)
    assert table.use_of(A) is SlotUse.RELEASING
    with pytest.raises(Conflict):
        table.reserve(TWO, B, 0, 1.0)


def test_a_slot_that_its_master_does_not_list_is_surplus_unless_it_is_young() -> None:
    """A job master may have counted its slots before it accepted this one (TM-15)."""
    table = SlotTable(2)
    table.reserve(ONE, A, 0, 0.0)
    table.activate(A, 5.0)
    table.activate(A, 12.0)
    assert table.surplus(ONE, (), 14.9, 10) == []
    assert [held.id for held in table.surplus(ONE, (), 15.0, 10)] == [A]
    assert table.surplus(ONE, (A,), 15.0, 10) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 3)), max_size=40))
def test_under_random_events_a_slot_has_one_owner(steps: list[tuple[int, int, int]]) -> None:
    """The reported owners are those that the table holds (design invariant 6)."""
    table = SlotTable(3)
    for now, (kind, which, index) in enumerate(steps):
        allocation, job = AllocationId(str(which)), JobId(str(which % 2) * 32)
        try:
            match kind:
                case 0:
                    table.reserve(job, allocation, index, now)
                case 1:
                    table.activate(allocation, now)
                case 2:
                    table.release(allocation)
                case 3:
                    table.free(allocation)
                case _:
                    table.deactivate(job, now)
        except (Conflict, NotFound):
            pass
        owners = [status.allocation for status in table.report().slots if status.allocation]
        assert len(owners) == len(set(owners))
        held = [*table.of_job(JobId("0" * 32)), *table.of_job(JobId("1" * 32))]
        assert len({each.index for each in held}) == len(held) == len(owners)


JOB = JobId("1" * 32)


def saved(index: int, allocation: str = "a") -> SavedSlot:
    return SavedSlot(index=index, job_id=JOB, allocation=AllocationId(allocation))


def test_the_next_instance_loads_the_saved_slots(tmp_path: Path) -> None:
    """The latest record of each slot counts (TM-22)."""
    store = FileSlotStore(tmp_path / "slots")
    for index in (10, 2, 0):
        store.save(saved(index, f"of {index}"))
    store.save(saved(2, "another"))
    store.remove(0)
    assert FileSlotStore(tmp_path / "slots").load() == [saved(2, "another"), saved(10, "of 10")]


def test_an_empty_store_loads_nothing_and_removing_from_it_is_harmless(tmp_path: Path) -> None:
    store = FileSlotStore(tmp_path / "slots")
    assert store.load() == []
    store.remove(3)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"index": "x"}',
        b'{"index": 0, "job_id": "\xff", "allocation": "a"}',
    ],
)
def test_a_damaged_record_is_removed_and_its_slot_starts_free(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the file (TM-22)."""
    store = FileSlotStore(tmp_path)
    store.save(saved(0))
    store.save(saved(1))
    (tmp_path / "0").write_bytes(content)
    assert store.load() == [saved(1)]
    assert not (tmp_path / "0").exists()
    assert f"{tmp_path / '0'} is unusable and is removed" in caplog.text


def test_a_file_that_describes_another_slot_is_ignored(tmp_path: Path) -> None:
    store = FileSlotStore(tmp_path)
    store.save(saved(1))
    (tmp_path / "1").rename(tmp_path / "0")
    assert store.load() == []


def test_an_unfinished_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".0").write_bytes(b'{"ind')
    assert FileSlotStore(tmp_path).load() == []


def test_a_failed_write_is_tolerated_and_leaves_no_older_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FileSlotStore(tmp_path)
    store.save(saved(0, "older"))
    (tmp_path / ".0.new").mkdir()
    store.save(saved(0, "newer"))
    assert store.load() == []
    assert "slot 0 would be free after a restart" in caplog.text


SLOTS = 3
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "activate", "deactivate", "release", "free"]),
        st.integers(0, SLOTS - 1),
        st.integers(0, 1),
    ),
    max_size=12,
)


def ids_of(index: int, turn: int) -> tuple[JobId, AllocationId]:
    return JobId(str(turn) * 32), AllocationId(f"{index}-{turn}")


def apply_event(table: PersistentSlotTable, event: str, index: int, turn: int) -> None:
    job_id, allocation = ids_of(index, turn)
    try:
        match event:
            case "reserve":
                table.reserve(job_id, allocation, index, 0.0)
            case "activate":
                table.activate(allocation, 0.0)
            case "deactivate":
                table.deactivate(job_id, 0.0)
            case "release":
                table.release(allocation)
            case _:
                table.free(allocation)
    except (Conflict, NotFound):
        return


@given(EVENTS, st.integers(1, SLOTS))
def test_the_next_instance_restores_the_slots_that_were_not_given_up(
    events: list[tuple[str, int, int]], size: int
) -> None:
    """This holds also with fewer slots than before (TM-22)."""
    disk: dict[int, SavedSlot] = {}
    previous = PersistentSlotTable(SLOTS, ProcessSlots(disk))
    for event in events:
        apply_event(previous, *event)
    expected = {
        (held.id, held.job_id, held.index)
        for held in previous.all()
        if held.use is not SlotUse.RELEASING and held.index < size
    }
    table = PersistentSlotTable(size, ProcessSlots(disk))
    jobs = table.restore(7.0)
    assert {(held.id, held.job_id, held.index) for held in table.all()} == expected
    assert all(held.use is SlotUse.RESERVED and held.since == 7.0 for held in table.all())
    assert sorted(jobs) == sorted(job_id for _, job_id, _ in expected)
    assert set(disk) == {index for _, _, index in expected}


def test_an_orderly_shutdown_leaves_no_records() -> None:
    disk: dict[int, SavedSlot] = {}
    table = PersistentSlotTable(SLOTS, ProcessSlots(disk))
    table.reserve(*ids_of(0, 0), 0, 0.0)
    table.reserve(*ids_of(1, 0), 1, 0.0)
    table.remove_all_records()
    assert disk == {}
