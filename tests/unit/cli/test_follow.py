"""Ctrl-C while a job is watched: it asks once and cancels."""

from collections.abc import Callable

import pytest

from stoker.cli.display import PlainDisplay
from stoker.cli.follow import InterruptChoice, JobFollower, UserLeft, cancel_without_question
from stoker.core.errors import JobAlreadyEnded
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import ExecutionState, JobStatus
from stoker.testing.sample_jobs import RUNNING, job_details

GOES_ON = job_details(RUNNING, JobStatus.RUNNING, ExecutionState.RUNNING)
CANCELED = job_details(RUNNING, JobStatus.CANCELED, ExecutionState.CANCELED)
FINISHED = job_details(RUNNING, JobStatus.FINISHED, ExecutionState.FINISHED)


class ScriptedClient:
    """Gives one answer after the other; an exception stands for Ctrl-C in that moment."""

    def __init__(self, *answers: JobDetails | type[BaseException]) -> None:
        self._answers = list(answers)
        self.cancelled: list[JobId] = []
        self.refusal: Exception | None = None

    def job(self, _job_id: JobId) -> JobDetails:
        answer = self._answers.pop(0)
        if isinstance(answer, type):
            raise answer
        return answer

    def wait_for_change(self, _job_id: JobId, known: JobStatus, _seconds: float) -> JobStatus:
        return known

    def cancel(self, job_id: JobId) -> None:
        self.cancelled.append(job_id)
        if self.refusal:
            raise self.refusal


def following(client: ScriptedClient, ask: Callable[[], InterruptChoice]) -> JobFollower:
    return JobFollower(client, RUNNING, PlainDisplay(lambda _text: None), ask)  # type: ignore[arg-type]


def test_a_job_is_watched_until_its_end() -> None:
    client = ScriptedClient(GOES_ON, GOES_ON, FINISHED)
    assert following(client, cancel_without_question).until_end() is FINISHED
    assert client.cancelled == []


def test_without_a_terminal_ctrl_c_cancels_and_the_end_is_awaited() -> None:
    client = ScriptedClient(GOES_ON, KeyboardInterrupt, GOES_ON, CANCELED)
    watching = following(client, cancel_without_question)
    assert watching.until_end() is CANCELED
    assert client.cancelled == [RUNNING]
    assert watching.interrupted


def test_no_means_that_the_job_is_watched_on() -> None:
    client = ScriptedClient(KeyboardInterrupt, GOES_ON, FINISHED)
    watching = following(client, lambda: InterruptChoice.WATCH)
    assert watching.until_end() is FINISHED
    assert client.cancelled == []
    assert not watching.interrupted


def test_ctrl_c_as_the_answer_cancels() -> None:
    def impatient() -> InterruptChoice:
        raise KeyboardInterrupt

    client = ScriptedClient(KeyboardInterrupt, CANCELED)
    following(client, impatient).until_end()
    assert client.cancelled == [RUNNING]


def test_ctrl_c_after_the_cancel_leaves_at_once() -> None:
    client = ScriptedClient(KeyboardInterrupt, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        following(client, cancel_without_question).until_end()
    assert client.cancelled == [RUNNING]


def test_a_job_can_be_left_running() -> None:
    client = ScriptedClient(KeyboardInterrupt)
    with pytest.raises(UserLeft):
        following(client, lambda: InterruptChoice.LEAVE).until_end()
    assert client.cancelled == []


def test_a_job_that_ended_during_the_question_shows_its_true_end() -> None:
    client = ScriptedClient(KeyboardInterrupt, FINISHED)
    client.refusal = JobAlreadyEnded(RUNNING, "FINISHED")
    assert following(client, cancel_without_question).until_end() is FINISHED
