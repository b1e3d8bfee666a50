"""Every invariant of the history can fail, and reports what happened."""

from stoker.core.ids import AttemptId, JobId, RegionId
from stoker.core.states import JobStatus
from stoker.testing.history import AttemptSpan, History

JOB = JobId("1" * 32)


def span(
    began: float, ended: float | None, *, attempt: str = "a", finished: bool = False
) -> AttemptSpan:
    return AttemptSpan(JOB, RegionId("out"), AttemptId(attempt), "te", began, ended, finished)


def faults(history: History, status: JobStatus | None = JobStatus.FINISHED) -> str:
    return "; ".join(history.broken_invariants({JOB: status} if status else {}))


def test_a_good_history_has_no_faults() -> None:
    history = History(attempts=[span(0, 1), span(1, 2, attempt="b", finished=True)])
    history.acknowledged[JOB] = 0
    history.ends[JOB] = (JobStatus.FINISHED, 2)
    assert faults(history) == ""


def test_a_lost_job_is_found() -> None:
    history = History(acknowledged={JOB: 0})
    assert "did not end" in faults(history, None)
    assert "did not end" in faults(history, JobStatus.RUNNING)


def test_a_changed_end_of_a_job_is_found() -> None:
    assert "was seen as FAILED" in faults(History(ends={JOB: (JobStatus.FAILED, 1)}))


def test_overlapping_attempts_are_found() -> None:
    assert "overlap" in faults(History(attempts=[span(0, 2), span(1, 3, attempt="b")]))
    assert "overlap" in faults(History(attempts=[span(5, 6), span(0, None, attempt="b")]))
    assert "overlap" in faults(History(attempts=[span(0, 2), span(0, 2, attempt="b")]))


def test_a_region_that_finished_twice_is_found() -> None:
    twice = [span(0, 1, finished=True), span(2, 3, attempt="b", finished=True)]
    assert "finished twice" in faults(History(attempts=twice))


def test_an_attempt_after_the_end_is_found() -> None:
    history = History(attempts=[span(5, 6)], ends={JOB: (JobStatus.FINISHED, 4)})
    assert "began after the job had ended" in faults(history)


def test_a_cancelled_job_that_ended_otherwise_is_found_unless_it_had_ended_before() -> None:
    assert "was cancelled" in faults(History(cancelled={JOB: 1}))
    late = History(cancelled={JOB: 3}, ends={JOB: (JobStatus.FINISHED, 2)})
    assert faults(late) == ""


def test_a_cancel_that_was_acknowledged_after_the_last_work_had_ended_may_come_too_late() -> None:
    def history(ended: float) -> History:
        return History(attempts=[span(1, ended)], cancelled={JOB: 3})

    assert faults(history(2)) == ""
    assert "was cancelled" in faults(history(4))


def test_frozen_work_may_overlap_only_at_the_moment_when_it_wakes_up() -> None:
    def history(ended: float) -> History:
        frozen = span(1, ended)
        frozen.pauses.append((5.0, 100.0))
        return History(attempts=[frozen, span(50, 60, attempt="b")])

    assert faults(history(101)) == ""
    assert "overlap" in faults(history(120))
    assert "overlap" in faults(History(attempts=[span(1, 101), span(50, 60, attempt="b")]))
