"""How an upgrade judges the new version of a job."""

from typing import Any, cast

import pytest

from stoker.cli import upgrading
from stoker.cli.upgrading import Upgrade
from stoker.core.graph import JobType
from stoker.core.ids import JobId
from stoker.core.results import Failure, FailureRecord, JobDetails
from stoker.core.states import JobStatus

JOB = JobId("a" * 32)


def details(status: JobStatus, **more: Any) -> JobDetails:
    return JobDetails(
        job_id=JOB,
        name="clicks",
        job_type=JobType.STREAMING,
        status=status,
        timestamps={},
        start=0,
        **more,
    )


class Told:
    """A client whose job is always the same."""

    def __init__(self, answer: JobDetails) -> None:
        self._answer = answer

    def job(self, _job_id: JobId) -> JobDetails:
        return self._answer


def verdict(answer: JobDetails, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.setattr(upgrading, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(upgrading, "START_SECONDS", 0.0)
    upgrade = Upgrade(client=cast(Any, Told(answer)), say=print, window_seconds=0.0)
    return upgrade._watch(JOB)


def test_one_that_never_runs_is_given_up_with_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = details(JobStatus.CREATED, waiting="needs 2 slots, 1 free")
    reason = verdict(waiting, monkeypatch)
    assert reason is not None
    assert "does not run after" in reason
    assert "needs 2 slots, 1 free" in reason


def test_one_that_fails_is_given_up_also_when_it_is_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = FailureRecord(failure=Failure(error="StateError", message="other schema"), at=1)
    reason = verdict(details(JobStatus.RESTARTING, failures=(failed,)), monkeypatch)
    assert reason is not None
    assert "other schema" in reason


def test_one_that_finishes_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(details(JobStatus.FINISHED), monkeypatch) is None
