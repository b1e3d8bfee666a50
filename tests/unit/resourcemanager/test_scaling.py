"""How many task executors are started and released."""

import math
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.graph import ResourceProfile
from stoker.core.ids import InstanceId, JobId
from stoker.resourcemanager.matching import Need
from stoker.resourcemanager.provider import ExecutorOffer, slot_profile
from stoker.resourcemanager.scaling import (
    IdleExecutor,
    StartFailures,
    executors_to_release,
    executors_to_start,
)

OFFER = ExecutorOffer(slots=2, profile=ResourceProfile(cores=2, memory_bytes=100))
TIMEOUT = timedelta(seconds=30)


def need(missing: int, cores: float = 1) -> Need:
    return Need(job_id=JobId("1"), missing=missing, profile=ResourceProfile(cores=cores))


def to_start(*needs: Need, starting: int = 0, room: int = 9, spare: int = 0, free: int = 0) -> int:
    return executors_to_start(needs, OFFER, free=free, starting=starting, room=room, spare=spare)


def test_executors_are_started_for_missing_slots_counting_those_already_starting() -> None:
    """An executor has two slots here (SM-03)."""
    assert to_start(need(3)) == 2
    assert to_start(need(3), starting=1) == 1
    assert to_start(need(3), starting=5) == 0


def test_no_more_executors_are_started_than_the_limit_allows() -> None:
    """At the limit, none is started (SM-13)."""
    assert to_start(need(30), room=4) == 4
    assert to_start(need(30), room=0) == 0


def test_no_executor_is_started_for_needs_that_would_not_fit() -> None:
    assert to_start(need(3, cores=3)) == 0
    assert executors_to_start([need(3)], None, free=0, starting=0, room=9, spare=0) == 0


def test_spare_executors_are_started_unless_enough_slots_are_free() -> None:
    assert to_start(spare=1) == 1
    assert to_start(spare=1, free=2) == 0
    assert to_start(need(2), spare=1) == 2


def idle(name: str, since: float, slots: int = 2) -> IdleExecutor:
    return IdleExecutor(instance=InstanceId(name), slots=slots, since=since)


def released(*executors: IdleExecutor, free: int, reserve: int = 0, now: float = 100) -> list[str]:
    return [
        str(each)
        for each in executors_to_release(
            executors, free=free, reserve=reserve, now=now, timeout=TIMEOUT
        )
    ]


def test_executors_idle_for_the_timeout_are_released_longest_idle_first() -> None:
    """An executor that has not been idle for so long stays (SM-11)."""
    executors = (idle("young", 80), idle("old", 10), idle("older", 5))
    assert released(*executors, free=6) == ["older", "old"]


def test_spare_executors_are_not_released() -> None:
    """Of the others, the one that was idle for longest goes (SM-12)."""
    executors = (idle("a", 10), idle("b", 5))
    assert released(*executors, free=4, reserve=2) == ["b"]
    assert released(*executors, free=4, reserve=4) == []


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(1, 4)), max_size=8),
    st.integers(0, 10),
    st.integers(0, 10),
)
def test_a_release_never_touches_the_reserve_of_free_slots(
    executors: list[tuple[float, int]], others: int, reserve: int
) -> None:
    known = {str(n): idle(str(n), since, slots) for n, (since, slots) in enumerate(executors)}
    free = others + sum(each.slots for each in known.values())
    gone = released(*known.values(), free=free, reserve=reserve)
    left = free - sum(known[name].slots for name in gone)
    assert left >= min(reserve, free)


def test_after_too_many_failures_the_next_start_is_delayed() -> None:
    """Failures are forgotten after a minute (RM-19)."""
    failures = StartFailures()
    for moment in (0.0, 1.0, 2.0):
        assert failures.wait(moment, most=2, pause=timedelta(seconds=3)) == 0
        failures = failures.with_failure(moment)
    assert failures.wait(2.5, most=2, pause=timedelta(seconds=3)) == 2.5
    assert failures.wait(61.5, most=2, pause=timedelta(seconds=3)) == 0


def test_the_slots_of_an_executor_share_its_resources_evenly() -> None:
    assert slot_profile(8, 1000, 4) == ResourceProfile(cores=2, memory_bytes=250)
    assert slot_profile(8, 1000, 0) == ResourceProfile(cores=8, memory_bytes=1000)
    assert math.isclose(slot_profile(1, 10, 3).cores, 1 / 3)
