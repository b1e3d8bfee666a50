"""Whatever happens to slots, the next life finds those that belong to jobs (TM-22)."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import Conflict, NotFound
from stoker.core.ids import AllocationId, JobId
from stoker.taskexecutor.lasting_slots import LastingSlots
from stoker.taskexecutor.slot_memory import KeptSlot
from stoker.taskexecutor.slot_table import SlotUse
from stoker.testing.process_slots import ProcessSlots

SLOTS = 3
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "activate", "deactivate", "release", "free"]),
        st.integers(0, SLOTS - 1),
        st.integers(0, 1),
    ),
    max_size=12,
)


def of(index: int, turn: int) -> tuple[JobId, AllocationId]:
    return JobId(str(turn) * 32), AllocationId(f"{index}-{turn}")


def play(table: LastingSlots, event: str, index: int, turn: int) -> None:
    job_id, allocation = of(index, turn)
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
def test_the_next_life_has_what_was_not_given_up(
    events: list[tuple[str, int, int]], size: int
) -> None:
    """TM-22, also with fewer slots than before"""
    disk: dict[int, KeptSlot] = {}
    former = LastingSlots(SLOTS, ProcessSlots(disk))
    for event in events:
        play(former, *event)
    expected = {
        (held.id, held.job_id, held.index)
        for held in former.all()
        if held.use is not SlotUse.RELEASING and held.index < size
    }
    table = LastingSlots(size, ProcessSlots(disk))
    jobs = table.restore(7.0)
    assert {(held.id, held.job_id, held.index) for held in table.all()} == expected
    assert all(held.use is SlotUse.RESERVED and held.since == 7.0 for held in table.all())
    assert sorted(jobs) == sorted(job_id for _, job_id, _ in expected)
    assert set(disk) == {index for _, _, index in expected}


def test_who_leaves_in_good_order_leaves_nothing() -> None:
    disk: dict[int, KeptSlot] = {}
    table = LastingSlots(SLOTS, ProcessSlots(disk))
    table.reserve(*of(0, 0), 0, 0.0)
    table.reserve(*of(1, 0), 1, 0.0)
    table.forget_all()
    assert disk == {}
