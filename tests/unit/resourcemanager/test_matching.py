"""Matching of slots to jobs: priority, fairness, all or nothing."""

from collections import Counter
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.graph import ResourceProfile
from stoker.core.ids import InstanceId, JobId
from stoker.resourcemanager.matching import (
    FreeSlot,
    Match,
    MatchingRules,
    Need,
    Placement,
    match,
)

RULES = MatchingRules(patience=timedelta(seconds=60), ageing=timedelta(seconds=300))
SMALL = ResourceProfile(cores=1, memory_bytes=1_000)
LARGE = ResourceProfile(cores=4, memory_bytes=8_000)


def free(profile: ResourceProfile = SMALL, **slots: int) -> list[FreeSlot]:
    return [
        FreeSlot(instance=InstanceId(name), index=index, profile=profile)
        for name, count in slots.items()
        for index in range(count)
    ]


def need(name: str, missing: int = 1, **more: object) -> Need:
    return Need(job_id=JobId(name), missing=missing, **more)  # type: ignore[arg-type]


def slots_by_job(matches: list[Match]) -> Counter[str]:
    return Counter(each.job_id for each in matches)


def slots_by_executor(matches: list[Match]) -> Counter[str]:
    return Counter(each.slot.instance for each in matches)


def matched(
    needs: list[Need],
    slots: list[FreeSlot],
    *,
    now: float = 0.0,
    used: dict[InstanceId, int] | None = None,
    placement: Placement = Placement.SPREAD,
) -> list[Match]:
    rules = MatchingRules(placement=placement, patience=RULES.patience, ageing=RULES.ageing)
    return match(needs, slots, used=used or {}, now=now, rules=rules)


def test_scarce_slots_are_shared_among_jobs() -> None:
    matches = matched([need("a", 5), need("b", 5), need("c", 1)], free(here=5))
    assert slots_by_job(matches) == {"a": 2, "b": 2, "c": 1}


def test_the_job_that_holds_fewer_slots_comes_first() -> None:
    assert slots_by_job(matched([need("rich", 3, held=4), need("poor", 2)], free(here=3))) == {
        "poor": 2,
        "rich": 1,
    }


def test_priority_goes_before_fairness_and_ageing_before_priority() -> None:
    needs = [need("old", since=0.0), need("important", priority=1, since=590.0)]
    assert slots_by_job(matched(needs, free(here=1), now=200.0)) == {"important": 1}
    assert slots_by_job(matched(needs, free(here=1), now=600.0)) == {"old": 1}


def test_spreading_takes_the_emptiest_and_packing_the_fullest() -> None:
    used = {InstanceId("here"): 2, InstanceId("there"): 0}
    slots = free(here=2, there=2)
    assert slots_by_executor(matched([need("a", 2)], slots, used=used)) == {"there": 2}
    packed = matched([need("a", 3)], slots, used=used, placement=Placement.PACK)
    assert slots_by_executor(packed) == {"here": 2, "there": 1}


def test_a_job_gets_the_smallest_slot_that_fits() -> None:
    slots = [*free(LARGE, big=1), *free(SMALL, little=1)]
    assert slots_by_executor(matched([need("a")], slots)) == {"little": 1}
    assert slots_by_executor(matched([need("a", profile=LARGE)], slots)) == {"big": 1}
    huge = ResourceProfile(cores=5)
    assert matched([need("a", profile=huge)], slots) == []


def test_regions_that_start_together_get_all_slots_or_none_and_block_no_other_job_at_first() -> (
    None
):
    needs = [need("stream", 3, at_once=3), need("small", 2, since=1.0)]
    assert slots_by_job(matched(needs, free(here=2), now=30.0)) == {"small": 2}
    assert slots_by_job(matched(needs, free(here=4), now=30.0)) == {"stream": 3, "small": 1}


def test_slots_are_reserved_for_regions_that_start_together_after_a_long_wait() -> None:
    needs = [need("stream", 3, at_once=3), need("small", 2, since=1.0)]
    assert matched(needs, free(here=2), now=60.0) == []
    assert slots_by_job(matched(needs, free(here=3), now=60.0)) == {"stream": 3}


def test_slots_that_do_not_fit_the_first_job_are_not_reserved_for_it() -> None:
    needs = [need("stream", 2, at_once=2, profile=LARGE), need("small", since=1.0)]
    slots = [*free(LARGE, big=1), *free(SMALL, little=1)]
    assert slots_by_executor(matched(needs, slots, now=100.0)) == {"little": 1}


NEEDS = st.lists(
    st.builds(
        Need,
        job_id=st.sampled_from([JobId(letter) for letter in "abcdef"]),
        missing=st.integers(0, 5),
        at_once=st.integers(1, 4),
        held=st.integers(0, 3),
        priority=st.integers(-2, 2),
        since=st.floats(0, 1000),
        profile=st.sampled_from([ResourceProfile(), SMALL, LARGE]),
    ),
    max_size=6,
    unique_by=lambda need: need.job_id,
)
SLOTS = st.lists(
    st.builds(
        FreeSlot,
        instance=st.sampled_from([InstanceId(name) for name in ("x", "y", "z")]),
        index=st.integers(0, 3),
        profile=st.sampled_from([SMALL, LARGE]),
    ),
    max_size=10,
    unique_by=lambda slot: (slot.instance, slot.index),
)


@given(NEEDS, SLOTS, st.floats(0, 2000), st.sampled_from(Placement))
def test_the_matching_rules_hold_for_any_needs(
    needs: list[Need], slots: list[FreeSlot], now: float, placement: Placement
) -> None:
    """A job gets at least what it needs at once, or nothing (SM-01)."""
    matches = matched(needs, slots, now=now, placement=placement)
    by_job = {need.job_id: need for need in needs}
    taken = [(each.slot.instance, each.slot.index) for each in matches]
    assert len(taken) == len(set(taken)), "no slot has two owners"
    assert set(taken) <= {(slot.instance, slot.index) for slot in slots}
    for job_id, count in slots_by_job(matches).items():
        asked = by_job[JobId(job_id)]
        assert min(asked.at_once, asked.missing) <= count <= asked.missing
    assert all(by_job[each.job_id].profile.fits_into(each.slot.profile) for each in matches)


@given(NEEDS, SLOTS, st.floats(0, 2000))
def test_no_usable_slot_stays_free_unless_it_is_reserved(
    needs: list[Need], slots: list[FreeSlot], now: float
) -> None:
    """It is reserved for regions that have waited long to start together (SM-08)."""
    matches = matched(needs, slots, now=now)
    left = len(slots) - len(matches)
    got = slots_by_job(matches)
    patient = any(now - each.since >= 60 and each.missing > got[each.job_id] for each in needs)
    if left and not patient:
        taken = {(each.slot.instance, each.slot.index) for each in matches}
        unused = [slot for slot in slots if (slot.instance, slot.index) not in taken]
        for each in needs:
            if (lacks := each.missing - got[each.job_id]) > 0:
                least = 1 if got[each.job_id] else min(each.at_once, lacks)
                assert sum(each.profile.fits_into(slot.profile) for slot in unused) < least


@given(st.integers(1, 6), st.integers(0, 20))
def test_equal_jobs_never_differ_by_more_than_one_slot(jobs: int, slots: int) -> None:
    needs = [need(str(number), 20) for number in range(jobs)]
    got = slots_by_job(matched(needs, free(here=slots)))
    shares = [got[str(number)] for number in range(jobs)]
    assert max(shares) - min(shares) <= 1
    assert sum(shares) == slots
