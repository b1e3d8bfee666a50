"""The job list, kept up to date by deltas."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.graph import JobType
from stoker.core.ids import JobId, SessionId
from stoker.core.results import JobResult, JobSummary
from stoker.core.states import JobStatus
from stoker.dispatcher.job_index import EndedJobs
from stoker.gateways.dispatcher import JobsSince
from stoker.rest.job_list.deltas import JobList
from stoker.rest.job_list.rows import json_array

LEADER = SessionId("leader")


def job_id(number: int) -> JobId:
    return JobId(f"{number:032x}")


def ended(number: int, start: int = 0, **changes: object) -> JobResult:
    facts = {
        "job_id": job_id(number),
        "name": f"job {number}",
        "job_type": JobType.BATCH,
        "status": JobStatus.FINISHED,
        "start": start,
        "end": start + 10,
    }
    return JobResult(**(facts | changes))  # type: ignore[arg-type]


def live(number: int, start: int = 0) -> JobSummary:
    return JobSummary(
        job_id=job_id(number),
        name=f"Live {number}",
        job_type=JobType.STREAMING,
        status=JobStatus.RUNNING,
        start=start,
        last_change=start,
    )


def delta(
    jobs: EndedJobs, known: int | None, running: list[JobSummary], gone: set[JobId] | None = None
) -> JobsSince:
    """The answer of the dispatcher; `gone` are jobs that were live at the previous fetch."""
    since = None if known is None else jobs.since(known)
    return JobsSince(
        leader=LEADER,
        revision=jobs.revision,
        live=tuple(running),
        ended=tuple(jobs.summaries() if since is None else since[0]),
        removed=tuple(() if since is None else since[1]),
        whole=since is None,
        live_gone=tuple(gone or ()),
        live_whole=gone is None,
    )


STEPS = st.tuples(
    st.sampled_from(["add", "remove", "begin", "end", "fetch"]),
    st.integers(0, 9),
    st.integers(0, 99),
)


@given(st.lists(STEPS), st.booleans())
def test_a_list_kept_up_to_date_by_deltas_equals_the_complete_list(
    steps: list[tuple[str, int, int]], by_deltas: bool
) -> None:
    jobs, followed = EndedJobs(), JobList()
    lives: dict[JobId, JobSummary] = {}
    seen: dict[JobId, JobSummary] = {}
    for step, number, start in [*steps, ("fetch", 0, 0)]:
        if step == "add":
            jobs.add(ended(number, start))
        elif step == "remove":
            jobs.remove([job_id(number)])
        elif step == "begin":
            lives[job_id(number)] = live(number, start)
        elif step == "end":
            lives.pop(job_id(number), None)
        elif followed.leader and by_deltas:
            changed = [job for job in lives.values() if seen.get(job.job_id) != job]
            gone = seen.keys() - lives.keys()
            followed.apply(delta(jobs, followed.revision, changed, gone))
            seen = dict(lives)
        else:
            known = followed.revision if followed.leader else None
            followed.apply(delta(jobs, known, list(lives.values())))
            seen = dict(lives)
    expected = [*lives.values(), *(job for job in jobs.summaries() if job.job_id not in lives)]
    expected.sort(key=lambda each: (-each.start, each.job_id))
    assert followed.all_jobs() == expected
    assert followed.live_jobs() == [each for each in expected if each.job_id in lives]
    whole = b"".join(json_array(followed.encode_all(500), b"", b""))
    assert whole == followed.encode(expected, 500)
    assert [each["jid"] for each in msgspec.json.decode(whole)] == [
        each.job_id for each in expected
    ]


def test_a_delta_since_a_forgotten_revision_does_not_exist() -> None:
    jobs = EndedJobs([ended(1)])
    jobs.add(ended(2))
    changed = jobs.since(0)
    assert changed is not None
    assert [job.job_id for job in changed[0]] == [job_id(2)]
    assert jobs.since(1) == ([], [])
    assert jobs.since(2) is None
    assert jobs.since(-1) is None


def test_a_late_answer_to_an_earlier_request_changes_nothing() -> None:
    followed = JobList()
    followed.apply(JobsSince(leader=LEADER, revision=5, live=(live(1),), whole=True))
    followed.apply(JobsSince(leader=LEADER, revision=4, whole=True))
    assert list(followed.live) == [job_id(1)]
