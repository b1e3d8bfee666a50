"""Ctrl-C while a command watches a job: the command asks once what to do."""

import sys
from collections.abc import Callable

import pytest

from stoker.cli.display import PlainDisplay
from stoker.cli.follow import (
    InterruptChoice,
    JobFollower,
    UserLeft,
    ask_about_interrupt,
    cancel_without_question,
)
from stoker.core.errors import JobAlreadyEnded, SavepointFailed
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
        self.stopped: list[JobId] = []
        self.refusal: Exception | None = None

    def stop(self, job_id: JobId) -> str:
        self.stopped.append(job_id)
        if self.refusal:
            raise self.refusal
        return "/saved/savepoint-1"

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


def test_a_job_can_be_stopped_with_a_savepoint() -> None:
    client = ScriptedClient(KeyboardInterrupt, FINISHED)
    said: list[str] = []
    watching = JobFollower(
        client,  # type: ignore[arg-type]
        RUNNING,
        PlainDisplay(said.append),
        lambda: InterruptChoice.STOP,
    )
    assert watching.until_end() is FINISHED
    assert client.stopped == [RUNNING]
    assert client.cancelled == []
    assert watching.interrupted
    assert any("stoker run -s /saved/savepoint-1 FILE" in text for text in said)


def test_a_job_whose_stop_fails_is_watched_further() -> None:
    client = ScriptedClient(KeyboardInterrupt, STILL_RUNNING, FINISHED)
    client.refusal = SavepointFailed("no batch boundary in time")
    watching = following(client, lambda: InterruptChoice.STOP)
    assert watching.until_end() is FINISHED
    assert not watching.interrupted


@pytest.mark.parametrize(
    ("answer", "can_stop", "choice"),
    [
        ("s", True, InterruptChoice.STOP),
        ("S", True, InterruptChoice.STOP),
        ("s", False, InterruptChoice.WATCH),
        ("y", True, InterruptChoice.CANCEL),
        ("d", True, InterruptChoice.LEAVE),
        ("", True, InterruptChoice.WATCH),
    ],
)
def test_the_question_offers_a_savepoint_for_streams_alone(
    monkeypatch: pytest.MonkeyPatch, answer: str, can_stop: bool, choice: InterruptChoice
) -> None:
    asked: list[str] = []

    def reply(text: str) -> str:
        asked.append(text)
        return answer

    monkeypatch.setattr("builtins.input", reply)
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert ask_about_interrupt(can_leave=True, can_stop=can_stop)() is choice
    assert ("[s]top it with a savepoint" in asked[0]) is can_stop


def test_a_job_that_ended_during_the_question_shows_its_true_end() -> None:
    client = ScriptedClient(KeyboardInterrupt, FINISHED)
    client.refusal = JobAlreadyEnded(RUNNING, "FINISHED")
    assert following(client, cancel_without_question).until_end() is FINISHED
