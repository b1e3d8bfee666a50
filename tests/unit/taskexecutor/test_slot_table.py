"""The slots of one task executor (TM-*)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.errors import Conflict, NotFound
from stoker.core.ids import AllocationId, JobId
from stoker.taskexecutor.slot_table import SlotTable, SlotUse

ONE, TWO = JobId("1" * 32), JobId("2" * 32)
A, B = AllocationId("a"), AllocationId("b")


def test_the_same_request_again_is_harmless_and_another_one_is_a_conflict() -> None:
    """X-TM-03"""
    table = SlotTable(2)
    assert table.reserve(ONE, A, 0, 1.0)
    assert not table.reserve(ONE, A, 0, 2.0)
    with pytest.raises(Conflict, match="slot 0 is held by job"):
        table.reserve(TWO, B, 0, 3.0)
    with pytest.raises(NotFound, match="no slot 2 here"):
        table.reserve(TWO, B, 2, 3.0)


def test_a_reserved_slot_is_overdue_when_nobody_takes_it_in_time() -> None:
    """TM-11"""
    table = SlotTable(2)
    table.reserve(ONE, A, 0, 1.0)
    table.reserve(ONE, B, 1, 1.0)
    table.activate(B, 2.0)
    assert table.overdue(10.9, 10) == []
    assert [held.id for held in table.overdue(11.0, 10)] == [A]


def test_slots_without_a_master_are_reserved_again_and_can_run_out() -> None:
    """TM-12"""
    table = SlotTable(1)
    table.reserve(ONE, A, 0, 0.0)
    table.activate(A, 0.0)
    assert table.overdue(99, 10) == []
    table.deactivate(ONE, 100.0)
    assert table.overdue(109, 10) == []
    assert [held.id for held in table.overdue(110, 10)] == [A]


def test_a_slot_that_was_given_up_cannot_be_taken_back() -> None:
    table = SlotTable(1)
    table.reserve(ONE, A, 0, 0.0)
    table.release(A)
    with pytest.raises(NotFound):
        table.activate(A, 1.0)
    assert table.use_of(A) is SlotUse.RELEASING
    with pytest.raises(Conflict):
        table.reserve(TWO, B, 0, 1.0)


def test_what_a_master_does_not_count_any_more_is_surplus_unless_it_is_young() -> None:
    """TM-15: a master may have counted before it took the slot."""
    table = SlotTable(2)
    table.reserve(ONE, A, 0, 0.0)
    table.activate(A, 5.0)
    table.activate(A, 12.0)
    assert table.surplus(ONE, (), 14.9, 10) == []
    assert [held.id for held in table.surplus(ONE, (), 15.0, 10)] == [A]
    assert table.surplus(ONE, (A,), 15.0, 10) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 3)), max_size=40))
def test_whatever_happens_a_slot_has_one_owner(steps: list[tuple[int, int, int]]) -> None:
    """Design invariant 6"""
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
