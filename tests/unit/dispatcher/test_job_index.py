"""The indexes of live and ended jobs, and the differences that they report."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.graph import JobType
from stoker.core.ids import JobId
from stoker.core.results import JobResult, JobSummary
from stoker.core.states import JobStatus
from stoker.dispatcher.job_index import MAX_CHANGES, EndedJobs, LiveJobIndex


def summary(job_id: str, status: JobStatus) -> JobSummary:
    return JobSummary(
        job_id=JobId(job_id), name=job_id, job_type=JobType.BATCH, status=status, start=0
    )


STATES = st.sampled_from([JobStatus.CREATED, JobStatus.RUNNING, None])


@given(st.lists(st.tuples(st.sampled_from("abcd"), STATES, st.booleans())))
def test_a_follower_of_the_differences_knows_every_live_job(
    steps: list[tuple[str, JobStatus | None, bool]],
) -> None:
    jobs: dict[JobId, JobSummary] = {}
    index = LiveJobIndex(jobs.get)
    known: dict[JobId, JobSummary] = {}
    revision = index.revision
    for name, status, ask in [*steps, ("a", None, True)]:
        job_id = JobId(name)
        if status is None:
            jobs.pop(job_id, None)
        else:
            jobs[job_id] = summary(name, status)
        index.mark_changed(job_id)
        if ask:
            since = index.since(revision)
            assert since is not None
            changed, gone = since
            known |= {job.job_id: job for job in changed}
            for gone_id in gone:
                known.pop(gone_id, None)
            revision = index.revision
            assert known == jobs
            assert sorted(job.job_id for job in index.summaries()) == sorted(jobs)


def test_a_job_with_an_unchanged_summary_is_not_reported_again() -> None:
    jobs = {JobId("a"): summary("a", JobStatus.RUNNING)}
    index = LiveJobIndex(jobs.get)
    index.mark_changed(JobId("a"))
    revision = index.revision
    index.mark_changed(JobId("a"))
    assert index.since(revision) == ([], [])


def test_changes_that_are_too_old_are_not_reported() -> None:
    jobs: dict[JobId, JobSummary] = {}
    index = LiveJobIndex(jobs.get)
    for number in range(MAX_CHANGES + 1):
        jobs[JobId(str(number))] = summary(str(number), JobStatus.RUNNING)
        index.mark_changed(JobId(str(number)))
    assert index.since(0) is None
    assert index.since(-1) is None
    assert index.since(1) is not None
    assert index.since(index.revision + 1) is None, "the revision is of another leader"


def test_ended_jobs_report_what_was_added_and_removed_since_a_revision() -> None:
    def result(job_id: str) -> JobResult:
        return JobResult(
            job_id=JobId(job_id),
            name=job_id,
            job_type=JobType.BATCH,
            status=JobStatus.FINISHED,
            start=0,
            end=1,
        )

    ended = EndedJobs([result("a")])
    revision = ended.revision
    assert ended.since(revision) == ([], [])
    ended.add(result("b"))
    ended.remove([JobId("a"), JobId("unknown")])
    since = ended.since(revision)
    assert since is not None
    added, removed = since
    assert ([job.job_id for job in added], removed) == (["b"], ["a"])
    assert ended.since(ended.revision) == ([], [])
