"""Which submissions and ends of jobs the log lacks."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.events.event import EventKind, Subject
from stoker.events.missing import CLOCK_MARGIN, MAX_MISSING, JobFacts, missing_events
from unit.events.logged import JOB, event

NOW = 10**12
ENDED = JobFacts(
    about=Subject(JOB, "orders", "ana"),
    submitted_at=NOW,
    status=JobStatus.FAILED,
    ended_at=NOW + 5,
)


def test_what_the_log_has_is_not_missing() -> None:
    submitted = event(1, 1, EventKind.JOB_SUBMITTED)
    failed = event(1, 2, EventKind.JOB_FAILED)
    assert missing_events([ENDED], [submitted, failed], settled=NOW) == []
    [missing] = missing_events([ENDED], [submitted], settled=NOW)
    assert (missing.kind, missing.at, missing.about) == (
        EventKind.JOB_FAILED,
        NOW + 5,
        ENDED.about,
    )


def test_a_live_job_has_no_end_that_could_be_missing() -> None:
    live = JobFacts(about=ENDED.about, submitted_at=NOW)
    [missing] = missing_events([live], [], settled=NOW)
    assert missing.kind is EventKind.JOB_SUBMITTED


def test_what_is_older_than_the_settled_time_was_in_the_log_once() -> None:
    settled = NOW + CLOCK_MARGIN + 1
    [missing] = missing_events([ENDED], [], settled=settled)
    assert missing.kind is EventKind.JOB_FAILED
    assert missing_events([ENDED], [], settled=settled + 5) == []


@given(st.integers(0, 2 * MAX_MISSING))
def test_a_new_log_of_a_cluster_with_many_jobs_begins_with_the_newest(count: int) -> None:
    jobs = [
        JobFacts(
            about=Subject(JobId(f"{number:032x}")),
            submitted_at=NOW + number,
            status=JobStatus.FINISHED,
            ended_at=NOW + number,
        )
        for number in range(count)
    ]
    missing = missing_events(jobs, [], settled=0)
    assert len(missing) == min(2 * count, MAX_MISSING)
    assert [each.at for each in missing] == sorted(each.at for each in missing)
    if missing:
        assert missing[-1].at == NOW + count - 1
