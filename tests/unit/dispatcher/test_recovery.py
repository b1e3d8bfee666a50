"""What a new leader does with the records that it finds."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from builders import build_graph
from stoker.core.graph import FormatRead, FormatWrite, JobType, Sink, Source
from stoker.core.ids import JobId
from stoker.core.results import JobResult
from stoker.core.states import JobStatus
from stoker.dispatcher.recovery import decide_recovery
from stoker.ha.stores.job_graphs import JobRecord, StoredJob
from stoker.ha.stores.job_results import ResultRecord, UnreadableJob


def job_id(number: int) -> JobId:
    return JobId(f"{number:032x}")


def stored(number: int, submitted_at: int = 0) -> StoredJob:
    graph = build_graph(job_id=job_id(number))
    record = JobRecord(
        job_id=graph.job_id,
        name="job",
        pointer="p",
        digest="d",
        nonce="n",
        submitted_at=submitted_at,
    )
    return StoredJob(record=record, graph=graph)


def stored_stream(number: int, submitted_at: int = 0, output: str = "/out") -> StoredJob:
    job = stored(number, submitted_at)
    graph = build_graph(
        Source(name="in", read=FormatRead(format="rate"), streaming=True),
        Sink(name="out", input="in", write=FormatWrite(format="parquet", path=output)),
        job_type=JobType.STREAMING,
        job_id=job.graph.job_id,
    )
    return replace(job, graph=graph)


def result(number: int, *, dirty: bool) -> ResultRecord:
    ended = JobResult(
        job_id=job_id(number),
        name="job",
        job_type=JobType.BATCH,
        status=JobStatus.FINISHED,
        start=0,
        end=1,
    )
    return ResultRecord(result=ended, dirty=dirty, pointer="p", nonce="n")


def broken(number: int) -> UnreadableJob:
    return UnreadableJob(job_id=job_id(number), reason="bad bytes")


def test_recovered_jobs_run_oldest_first_and_keep_their_cancellation() -> None:
    """A cancellation request outlives the leader that accepted it (RUN-07, DISP-12)."""
    recovery = decide_recovery([stored(1, 9), stored(2, 5)], [], {job_id(1)})
    assert [(job.graph.job_id, job.cancel_wanted) for job in recovery.run] == [
        (job_id(2), False),
        (job_id(1), True),
    ]
    assert all(job.recovered for job in recovery.run)


def test_a_job_with_a_dirty_result_is_cleaned_up_and_not_run() -> None:
    """The job has ended, whatever else is on record (RUN-08, DISP-13)."""
    recovery = decide_recovery([stored(1)], [result(1, dirty=True)], set())
    assert recovery.run == ()
    assert recovery.clean_up == (job_id(1),)


def test_a_dirty_result_without_a_job_is_cleaned_up() -> None:
    """The job record was removed before the leader died (RUN-09)."""
    assert decide_recovery([], [result(1, dirty=True)], set()).clean_up == (job_id(1),)


def test_a_job_with_an_unreadable_result_counts_as_ended() -> None:
    recovery = decide_recovery([stored(1), stored(2)], [broken(1)], set())
    assert [job.graph.job_id for job in recovery.run] == [job_id(2)]


def test_a_job_that_cannot_be_loaded_does_not_keep_others_from_running() -> None:
    recovery = decide_recovery([broken(1), stored(2)], [], set())
    assert [job.graph.job_id for job in recovery.run] == [job_id(2)]
    assert [each.job_id for each in recovery.broken] == [job_id(1)]


def test_a_cancelled_job_that_cannot_be_loaded_keeps_its_cancellation() -> None:
    recovery = decide_recovery([broken(1), broken(2)], [], {job_id(2), job_id(3)})
    assert recovery.broken_and_cancelled == {job_id(2)}


def test_a_job_that_has_started_attempts_does_not_queue_again() -> None:
    recovery = decide_recovery([stored(1), stored(2)], [], set(), admitted={job_id(2)})
    assert [job.was_admitted for job in recovery.run] == [False, True]


def test_of_two_streams_with_one_output_the_one_that_has_not_begun_waits_in_quarantine() -> None:
    """It may be the older one: what counts is which of them has written."""
    jobs = [stored_stream(1, 5), stored_stream(2, 9), stored_stream(3, 7, output="/other")]
    by_age = decide_recovery(jobs, [], set())
    assert [job.graph.job_id for job in by_age.run] == [job_id(1), job_id(3)]
    [held_back] = by_age.broken
    assert held_back.job_id == job_id(2)
    assert f"({job_id(1)[:12]}) has not ended and writes into /out" in held_back.reason
    by_admission = decide_recovery(jobs, [], set(), admitted={job_id(2)})
    assert [job.graph.job_id for job in by_admission.run] == [job_id(3), job_id(2)]


def test_streams_with_one_output_that_have_begun_or_are_cancelled_are_left_to_their_masters() -> (
    None
):
    jobs = [stored_stream(1), stored_stream(2), stored_stream(3)]
    recovery = decide_recovery(jobs, [], {job_id(3)}, admitted={job_id(1), job_id(2)})
    assert len(recovery.run) == 3


@given(
    st.sets(st.integers(0, 9)),
    st.sets(st.integers(0, 9)),
    st.dictionaries(st.integers(0, 9), st.sampled_from(["dirty", "clean", "unreadable"])),
)
def test_every_record_is_accounted_for_and_no_ended_job_runs(
    readable: set[int], unreadable: set[int], ended: dict[int, str]
) -> None:
    """Unreadable jobs go to quarantine, dirty results to clean-up (design invariants 1 and 2)."""
    jobs = [stored(n) if n in readable else broken(n) for n in readable | unreadable]
    results = [
        broken(n) if kind == "unreadable" else result(n, dirty=kind == "dirty")
        for n, kind in ended.items()
    ]
    recovery = decide_recovery(jobs, results, set())
    run = {job.graph.job_id for job in recovery.run}
    quarantined = {each.job_id for each in recovery.broken}
    assert run == {job_id(n) for n in readable - set(ended)}
    assert quarantined == {job_id(n) for n in unreadable - readable - set(ended)}
    assert {each.job_id for each in recovery.ended} == {
        job_id(n) for n, kind in ended.items() if kind != "unreadable"
    }
    assert set(recovery.clean_up) == {job_id(n) for n, kind in ended.items() if kind == "dirty"}
