"""Which jobs of a queue are admitted, and why the others wait."""

import asyncio
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.core.errors import InvalidOption
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, Sink, Source
from stoker.core.ids import JobId
from stoker.dispatcher.options import QueueOptions
from stoker.dispatcher.queue_order import AdmissionPlan, QueuedJob, QueueLimits, plan_admission
from stoker.dispatcher.queues import Queues, limits_of
from stoker.gateways.job import JobToRun

AGEING = timedelta(minutes=5)
MINUTE = 60_000


def queued(name: str, at: int = 0, **more: object) -> QueuedJob:
    facts = {"queue": "q", "slots": 1, **more}
    return QueuedJob(job_id=JobId(name), submitted_at=at, **facts)  # type: ignore[arg-type]


def plan(*jobs: QueuedJob, now: int = 0, **limits: int) -> AdmissionPlan:
    return plan_admission(jobs, {"q": QueueLimits(**limits)}, now=now, ageing=AGEING)


def test_without_limits_every_job_is_admitted() -> None:
    assert plan(queued("a"), queued("b", 1)).admitted == ("a", "b")


def test_jobs_are_admitted_in_order_and_the_others_have_a_wait_reason() -> None:
    decided = plan(queued("c", 3), queued("a", 1), queued("b", 2), running_jobs=1)
    assert decided.admitted == ("a",)
    assert dict(decided.waiting) == {
        "b": "queue q is at its limit of 1 running job",
        "c": "queue q is at its limit of 1 running job; 1 job ahead of it in the queue",
    }


def test_running_jobs_count_even_beyond_the_limit() -> None:
    running = [queued(str(number), is_admitted=True) for number in range(3)]
    assert plan(*running, queued("late"), running_jobs=2).admitted == ()
    assert plan(*running, queued("late"), running_jobs=4).admitted == ("late",)


def test_a_small_job_does_not_overtake_a_large_one_in_its_queue() -> None:
    jobs = (
        queued("runs", slots=3, is_admitted=True),
        queued("large", 1, slots=2),
        queued("small", 2),
    )
    decided = plan(*jobs, slots=4)
    assert decided.admitted == ()
    assert dict(decided.waiting) == {
        "large": "needs 2 slots, and queue q has 1 left of its limit of 4",
        "small": "queue q serves the jobs before it first; 1 job ahead of it in the queue",
    }


def test_a_higher_priority_goes_first_and_waiting_raises_a_priority() -> None:
    jobs = (queued("old", 0), queued("important", 9 * MINUTE, priority=1))
    assert plan(*jobs, now=4 * MINUTE, running_jobs=1).admitted == ("important",)
    assert plan(*jobs, now=10 * MINUTE, running_jobs=1).admitted == ("old",)


def test_a_job_that_can_never_be_admitted_does_not_block_others() -> None:
    decided = plan(queued("huge", slots=9), queued("next", 1), slots=4)
    assert decided.admitted == ("next",)
    assert "raise queues.slots for q" in decided.waiting[JobId("huge")]


def test_a_cancelled_job_is_admitted_at_once_and_counts_against_no_limit() -> None:
    jobs = (
        queued("runs", is_admitted=True),
        queued("next", 1),
        queued("gone", 2, is_cancelled=True),
    )
    assert plan(*jobs, running_jobs=1).admitted == ("gone",)
    assert plan(*jobs, running_jobs=2).admitted == ("gone", "next")


def test_queues_are_independent_and_jobs_of_a_removed_queue_use_the_default() -> None:
    limits = {"a": QueueLimits(running_jobs=1), "default": QueueLimits(running_jobs=1)}
    jobs = [queued("1", queue="a"), queued("2", queue="former"), queued("3", queue="default", at=1)]
    decided = plan_admission(jobs, limits, now=0, ageing=AGEING)
    assert set(decided.admitted) == {"1", "2"}
    assert "queue default" in decided.waiting[JobId("3")]


def test_limits_come_from_the_options() -> None:
    options = QueueOptions(names=("x",), running_jobs={"a": "2"}, slots={"a": "3", "b": "4"})
    assert limits_of(options) == {
        "a": QueueLimits(running_jobs=2, slots=3),
        "b": QueueLimits(slots=4),
        "default": QueueLimits(),
        "x": QueueLimits(),
    }
    with pytest.raises(InvalidOption, match=r"queues.slots of queue a is '-1'"):
        QueueOptions(slots={"a": "-1"})


JOBS = st.lists(
    st.builds(
        QueuedJob,
        job_id=st.integers(0, 30).map(lambda number: JobId(f"{number:02}")),
        queue=st.sampled_from(["a", "b", "default"]),
        slots=st.integers(1, 4),
        submitted_at=st.integers(0, 20 * MINUTE),
        priority=st.integers(-2, 2),
    ),
    max_size=12,
    unique_by=lambda job: job.job_id,
)
LIMITS = st.dictionaries(
    st.sampled_from(["a", "b", "default"]),
    st.builds(
        QueueLimits,
        running_jobs=st.none() | st.integers(1, 3),
        slots=st.none() | st.integers(1, 6),
    ),
)


@given(JOBS, LIMITS, st.randoms(use_true_random=False))
def test_until_all_jobs_have_run_no_limit_is_exceeded_and_the_order_is_kept(
    jobs: list[QueuedJob], limits: dict[str, QueueLimits], random: Random
) -> None:
    """Jobs run and end in any order, until only jobs are left that can never be admitted."""
    limits = {"a": QueueLimits(), "b": QueueLimits(), "default": QueueLimits(), **limits}
    world = {job.job_id: job for job in jobs}
    hopeless = {job.job_id for job in jobs if limits[job.queue].too_small_for(job.slots)}
    order: dict[str, list[QueuedJob]] = defaultdict(list)
    for _ in range(3 * len(jobs) + 1):
        decided = plan_admission(world.values(), limits, now=0, ageing=timedelta(0))
        assert set(decided.admitted) | set(decided.waiting) == {
            job.job_id for job in world.values() if not job.is_admitted
        }
        for job_id in decided.admitted:
            job = world[job_id]
            order[job.queue].append(job)
            world[job_id] = queued(
                job_id, queue=job.queue, slots=job.slots, priority=job.priority, is_admitted=True
            )
        for name, limit in limits.items():
            running = [job for job in world.values() if job.queue == name and job.is_admitted]
            assert limit.running_jobs is None or len(running) <= limit.running_jobs
            assert limit.slots is None or sum(job.slots for job in running) <= limit.slots
        admitted = sorted(job.job_id for job in world.values() if job.is_admitted)
        if admitted:
            del world[random.choice(admitted)]
    assert set(world) == hopeless
    for line in order.values():
        places = [(-job.priority, job.submitted_at, job.job_id) for job in line]
        assert places == sorted(places)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["enter", "enter", "admitted", "leave", "cancel"]),
            st.integers(0, 8),
            st.sampled_from(["a", "default", "former"]),
            st.integers(1, 3),
        ),
        max_size=40,
    ),
    st.none() | st.integers(1, 3),
    st.none() | st.integers(1, 4),
)
@example(
    [("enter", 2, "default", 1), ("enter", 1, "default", 2), ("admitted", 0, "default", 1)], None, 2
)
def test_incremental_planning_admits_the_same_jobs_as_planning_everything(
    steps: list[tuple[str, int, str, int]], most_jobs: int | None, most_slots: int | None
) -> None:
    options = QueueOptions(
        running_jobs={} if most_jobs is None else {"a": str(most_jobs)},
        slots={} if most_slots is None else {"a": str(most_slots), "default": str(most_slots)},
    )
    asyncio.run(_follow(options, steps))


async def _follow(options: QueueOptions, steps: list[tuple[str, int, str, int]]) -> None:
    queues, limits = Queues(options, lambda: 50), limits_of(options)
    world: dict[JobId, QueuedJob] = {}
    for at, (step, number, queue, slots) in enumerate(steps):
        job_id = JobId(f"{number:032x}")
        job = world.get(job_id)
        if step in ("enter", "admitted") and job is None:
            is_admitted = step == "admitted"
            world[job_id] = QueuedJob(
                job_id=job_id, queue=queue, slots=slots, submitted_at=at, is_admitted=is_admitted
            )
            queues.enter(
                JobToRun(
                    graph=_graph(job_id, queue, slots), submitted_at=at, was_admitted=is_admitted
                )
            )
        elif step == "leave" and job is not None:
            del world[job_id]
            queues.leave(job_id)
        elif step == "cancel" and job is not None and not job.is_admitted:
            world[job_id] = replace(job, is_cancelled=True)
            queues.admit_cancelled(job_id)
        decided = plan_admission(world.values(), limits, now=50, ageing=options.ageing)
        for admitted in decided.admitted:
            entered = world[admitted]
            world[admitted] = replace(entered, is_admitted=not entered.is_cancelled)
        let_in = {each for each in world if queues._turns[each].is_set()}
        assert let_in == {
            each.job_id for each in world.values() if each.is_admitted or each.is_cancelled
        }
        assert {each: queues.why_waiting(each) for each in world} == {
            each: decided.waiting.get(each) for each in world
        }


def _graph(job_id: JobId, queue: str, slots: int) -> JobGraph:
    sinks = [
        Sink(name=f"out{number}", input="rows", write=FormatWrite(format="noop"))
        for number in range(slots)
    ]
    rows = Source(name="rows", read=FormatRead(format="json", path="/in"))
    return JobGraph(job_id=job_id, name="j", vertices=(rows, *sinks), queue=queue)
