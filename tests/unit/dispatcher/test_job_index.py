"""The live jobs by differences."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.graph import JobType
from stoker.core.ids import JobId
from stoker.core.results import JobSummary
from stoker.core.states import JobStatus
from stoker.dispatcher.job_index import MAX_CHANGES, LiveJobIndex


def summary(job_id: str, status: JobStatus) -> JobSummary:
    return JobSummary(
        job_id=JobId(job_id), name=job_id, job_type=JobType.BATCH, status=status, start=0
    )


STATES = st.sampled_from([JobStatus.CREATED, JobStatus.RUNNING, None])


@given(st.lists(st.tuples(st.sampled_from("abcd"), STATES, st.booleans())))
def test_who_follows_by_differences_knows_every_live_job(
    steps: list[tuple[str, JobStatus | None, bool]],
) -> None:
    jobs: dict[JobId, JobSummary] = {}
    told = LiveJobIndex(jobs.get)
    known: dict[JobId, JobSummary] = {}
    revision = told.revision
    for name, status, look in [*steps, ("a", None, True)]:
        job_id = JobId(name)
        if status is None:
            jobs.pop(job_id, None)
        else:
            jobs[job_id] = summary(name, status)
        told.changed(job_id)
        if look:
            since = told.since(revision)
            assert since is not None
            changed, gone = since
            known |= {job.job_id: job for job in changed}
            for gone_id in gone:
                known.pop(gone_id, None)
            revision = told.revision
            assert known == jobs
            assert sorted(job.job_id for job in told.summaries()) == sorted(jobs)


def test_a_job_that_was_told_of_and_looks_the_same_is_no_news() -> None:
    jobs = {JobId("a"): summary("a", JobStatus.RUNNING)}
    told = LiveJobIndex(jobs.get)
    told.changed(JobId("a"))
    revision = told.revision
    told.changed(JobId("a"))
    assert told.since(revision) == ([], [])


def test_changes_that_are_too_long_ago_cannot_be_told() -> None:
    jobs: dict[JobId, JobSummary] = {}
    told = LiveJobIndex(jobs.get)
    for number in range(MAX_CHANGES + 1):
        jobs[JobId(str(number))] = summary(str(number), JobStatus.RUNNING)
        told.changed(JobId(str(number)))
    assert told.since(0) is None
    assert told.since(-1) is None
    assert told.since(1) is not None
    assert told.since(told.revision + 1) is None, "of another leader"
