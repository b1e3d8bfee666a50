"""Heartbeats of a command whose job is attached to it."""

import queue
import threading
from datetime import timedelta
from typing import Any, cast

import pytest

from stoker.cli.display import PlainDisplay
from stoker.cli.follow import InterruptChoice, JobFollower
from stoker.cli.options.attachment import sending_heartbeats
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import Unavailable
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import ExecutionState, JobStatus
from stoker.testing.sample_jobs import RUNNING, job_details

FINISHED = job_details(RUNNING, JobStatus.FINISHED, ExecutionState.FINISHED)
OPTIONS = ClientOptions(
    heartbeat_interval=timedelta(milliseconds=1), heartbeat_timeout=timedelta(seconds=7)
)
PATIENCE_SECONDS = 20


class InterruptedClient:
    """Its user presses Ctrl-C at once; the job has ended when the command asks again."""

    def __init__(self) -> None:
        self.beats: queue.Queue[tuple[JobId, float]] = queue.Queue()
        self.failures: list[Exception] = []
        self._answers: list[Any] = [KeyboardInterrupt(), FINISHED]

    def heartbeat(self, job_id: JobId, seconds: float) -> None:
        if self.failures:
            raise self.failures.pop()
        self.beats.put((job_id, seconds))

    def job(self, _job_id: JobId) -> JobDetails:
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return cast("JobDetails", answer)


@pytest.fixture
def client() -> InterruptedClient:
    return InterruptedClient()


def test_heartbeats_are_sent_while_the_user_is_asked_about_ctrl_c(
    client: InterruptedClient,
) -> None:
    seen: list[tuple[JobId, float]] = []

    def think() -> InterruptChoice:
        seen.extend(client.beats.get(timeout=PATIENCE_SECONDS) for _ in range(3))
        return InterruptChoice.WATCH

    blocking = cast("BlockingClient", client)
    follower = JobFollower(blocking, RUNNING, PlainDisplay(lambda _text: None), think)
    with sending_heartbeats(blocking, RUNNING, OPTIONS):
        assert follower.until_end() is FINISHED
    assert seen == [(RUNNING, 7.0)] * 3
    assert "heartbeats" not in [thread.name for thread in threading.enumerate()]


def test_a_heartbeat_that_fails_does_not_stop_the_next_ones(client: InterruptedClient) -> None:
    client.failures = [Unavailable("no master leads at the moment")]
    with sending_heartbeats(cast("BlockingClient", client), RUNNING, OPTIONS):
        assert client.beats.get(timeout=PATIENCE_SECONDS) == (RUNNING, 7.0)
