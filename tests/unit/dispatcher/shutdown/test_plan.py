"""The pure plan of a cluster shutdown (DISP-16, DISP-17)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.ids import JobId
from stoker.core.states import ApplicationStatus
from stoker.dispatcher.shutdown.plan import (
    FORGOTTEN_AFTER_MILLIS,
    CancelJobs,
    RecordedShutdown,
    RemainingWork,
    ShutdownComplete,
    ShutdownPlan,
    WaitUntil,
    decide_recorded_shutdown,
)
from stoker.ha.stores.shutdowns import ShutdownRecord, ShutdownStage

ONE, TWO = JobId("1" * 32), JobId("2" * 32)
PATIENCE = 10.0


def test_a_cluster_without_work_ends_at_once() -> None:
    """The first step of its plan is the end (DISP-16)."""
    assert ShutdownPlan(0, PATIENCE).next_step(RemainingWork(), 0) == ShutdownComplete()


def test_nothing_is_cancelled_before_savepoints_have_finished() -> None:
    ending = ShutdownPlan(0, PATIENCE)
    busy = RemainingWork(savepoints=1, running=frozenset({ONE}))
    assert ending.next_step(busy, 1) == WaitUntil(10)
    assert ending.next_step(RemainingWork(running=frozenset({ONE})), 5) == CancelJobs(
        frozenset({ONE})
    )
    later = RemainingWork(savepoints=1, ending=frozenset({ONE}))
    assert ending.next_step(later, 6) == WaitUntil(15), (
        "jobs have a timeout of their own from then on"
    )


def test_a_slow_savepoint_does_not_hold_up_the_shutdown_beyond_the_timeout() -> None:
    ending = ShutdownPlan(0, PATIENCE)
    busy = RemainingWork(savepoints=1, running=frozenset({ONE}))
    assert ending.next_step(busy, 0) == WaitUntil(10)
    assert ending.next_step(busy, 10) == CancelJobs(frozenset({ONE}))


def test_the_shutdown_completes_after_the_end_and_clean_up_of_all_jobs() -> None:
    """Otherwise a leftover record could bring a job back (DISP-17)."""
    ending = ShutdownPlan(0, PATIENCE)
    assert isinstance(ending.next_step(RemainingWork(ending=frozenset({ONE})), 0), WaitUntil)
    assert isinstance(ending.next_step(RemainingWork(in_cleanup=frozenset({ONE})), 1), WaitUntil)
    assert isinstance(ending.next_step(RemainingWork(submissions=1), 2), WaitUntil)
    assert isinstance(ending.next_step(RemainingWork(replacements=1), 3), WaitUntil)
    assert ending.next_step(RemainingWork(), 4) == ShutdownComplete()


def test_a_job_that_arrives_during_the_shutdown_is_cancelled_too() -> None:
    ending = ShutdownPlan(0, PATIENCE)
    assert isinstance(ending.next_step(RemainingWork(ending=frozenset({ONE})), 0), WaitUntil)
    late = RemainingWork(running=frozenset({TWO}), ending=frozenset({ONE}))
    assert ending.next_step(late, 11) == CancelJobs(frozenset({TWO}))
    assert ending.next_step(late, 11) == ShutdownComplete(frozenset({ONE, TWO}))


def test_a_job_that_stops_with_a_savepoint_is_cancelled_only_after_the_timeout() -> None:
    ending = ShutdownPlan(0, PATIENCE)
    stopping = RemainingWork(stopping=frozenset({ONE}))
    assert ending.next_step(stopping, 0) == WaitUntil(10)
    assert ending.next_step(stopping, 10) == CancelJobs(frozenset({ONE}))
    assert ending.next_step(stopping, 10) == ShutdownComplete(frozenset({ONE}))


job_sets = st.frozensets(st.sampled_from([ONE, TWO, JobId("3" * 32)]))
worlds = st.builds(
    RemainingWork,
    savepoints=st.integers(0, 2),
    submissions=st.integers(0, 2),
    replacements=st.integers(0, 2),
    running=job_sets,
    stopping=job_sets,
    ending=job_sets,
    in_cleanup=job_sets,
)


@given(
    moments=st.lists(st.tuples(st.floats(0, 30, allow_nan=False), worlds), min_size=1, max_size=40)
)
def test_every_shutdown_ends_in_time_and_has_cancelled_every_job(
    moments: list[tuple[float, RemainingWork]],
) -> None:
    ending = ShutdownPlan(0, PATIENCE)
    asked: set[JobId] = set()
    now = 0.0
    for pause, world in moments:
        now += pause
        match ending.next_step(world, now):
            case CancelJobs(jobs=jobs):
                assert jobs
                assert jobs <= world.running | world.stopping
                asked |= jobs
            case WaitUntil(deadline=deadline):
                assert now < deadline <= now + PATIENCE
                assert deadline < math.inf
            case ShutdownComplete(unfinished=unfinished):
                assert world.running <= asked
                assert world.stopping <= asked or now < PATIENCE
                assert (
                    unfinished == world.running | world.stopping | world.ending | world.in_cleanup
                )
                in_time = now < PATIENCE
                assert not (in_time and unfinished)
                return


def test_a_shutdown_takes_at_most_two_timeouts() -> None:
    ending, now, steps = ShutdownPlan(0, PATIENCE), 0.0, 0
    stuck = RemainingWork(savepoints=1, submissions=1, running=frozenset({ONE}))
    while not isinstance(step := ending.next_step(stuck, now), ShutdownComplete):
        now = step.deadline if isinstance(step, WaitUntil) else now + 0.5
        steps += 1
        assert steps < 100
    assert now <= 2 * PATIENCE + 0.5


def record(stage: ShutdownStage, at: int = 0) -> ShutdownRecord:
    return ShutdownRecord(nonce="n", status=ApplicationStatus.SUCCEEDED, at=at, stage=stage)


LATE = FORGOTTEN_AFTER_MILLIS + 2 * 1000 + 1


@pytest.mark.parametrize(
    ("found", "concerns_us", "now", "expected"),
    [
        (None, False, 0, RecordedShutdown.SERVE),
        (record(ShutdownStage.OVER), False, 5, RecordedShutdown.SERVE),
        (record(ShutdownStage.OVER), True, 5, RecordedShutdown.END),
        (record(ShutdownStage.OVER), True, LATE, RecordedShutdown.END),
        (record(ShutdownStage.ENDING), True, 5, RecordedShutdown.COMPLETE),
        (record(ShutdownStage.ENDING), True, LATE - 1, RecordedShutdown.COMPLETE),
        (record(ShutdownStage.ENDING), True, LATE, RecordedShutdown.FORGET),
        (record(ShutdownStage.ENDING, at=LATE), True, 0, RecordedShutdown.COMPLETE),
    ],
)
def test_a_new_leader_decides_about_a_shutdown_on_record(
    found: ShutdownRecord | None, concerns_us: bool, now: int, expected: RecordedShutdown
) -> None:
    """The leader completes the shutdown, ends with it, or forgets it (RUN-05, RUN-06)."""
    standing = decide_recorded_shutdown(
        found, concerns_us=concerns_us, now=now, timeout_millis=1000
    )
    assert standing is expected
