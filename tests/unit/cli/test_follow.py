"""Ctrl-C while a command watches a job: the command asks once what to do."""

from collections.abc import Callable

import pytest

from stoker.cli.display import PlainDisplay
from stoker.cli.follow import InterruptChoice, JobFollower, UserLeft, cancel_without_question
from stoker.core.errors import JobAlreadyEnded
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import ExecutionState, JobStatus
from stoker.testing.sample_jobs import RUNNING, job_details

STILL_RUNNING = job_details(RUNNING, JobStatus.RUNNING, ExecutionState.RUNNING)
CANCELED = job_details(RUNNING, JobStatus.CANCELED, ExecutionState.CANCELED)
FINISHED = job_details(RUNNING, JobStatus.FINISHED, ExecutionState.FINISHED)


class ScriptedClient:
    """A client with scripted answers; a KeyboardInterrupt among them stands for Ctrl-C."""

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
    client = ScriptedClient(STILL_RUNNING, STILL_RUNNING, FINISHED)
    assert following(client, cancel_without_question).until_end() is FINISHED
    assert client.cancelled == []


def test_without_a_terminal_ctrl_c_cancels_the_job_and_waits_for_its_end() -> None:
    client = ScriptedClient(STILL_RUNNING, KeyboardInterrupt, STILL_RUNNING, CANCELED)
    watching = following(client, cancel_without_question)
    assert watching.until_end() is CANCELED
    assert client.cancelled == [RUNNING]
    assert watching.interrupted


def test_the_job_is_watched_further_if_the_user_decides_so() -> None:
    client = ScriptedClient(KeyboardInterrupt, STILL_RUNNING, FINISHED)
    watching = following(client, lambda: InterruptChoice.WATCH)
    assert watching.until_end() is FINISHED
    assert client.cancelled == []
    assert not watching.interrupted


def test_ctrl_c_at_the_question_cancels_the_job() -> None:
    def press_ctrl_c() -> InterruptChoice:
        raise KeyboardInterrupt

    client = ScriptedClient(KeyboardInterrupt, CANCELED)
    following(client, press_ctrl_c).until_end()
    assert client.cancelled == [RUNNING]


def test_ctrl_c_after_the_cancellation_ends_the_command_at_once() -> None:
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
