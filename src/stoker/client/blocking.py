"""The client for programs without an event loop, above all the command line.

It uses http.client: importing httpx takes longer than a whole `stoker list` may.
"""

import http
import http.client
import os
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from stoker.api.cluster import Overview, TaskManager
from stoker.api.jobs import ExceptionHistory, JobExecutionResult, JobOverview, Plan
from stoker.api.logs import LogAnswer
from stoker.api.quarantine import Quarantined
from stoker.api.queues import Queue
from stoker.api.replacements import ReplacementState
from stoker.api.savepoints import SavepointOutcome
from stoker.api.submission import JobSubmitted
from stoker.api.versions import SERVER_HEADER
from stoker.client import calls
from stoker.client.answers import (
    COME_AGAIN,
    answer_too_large,
    error_of,
    operation_too_late,
    successful,
    value_of,
)
from stoker.client.calls import Call, Replacing
from stoker.client.connections import Connection, Connections
from stoker.client.identity import check_server, headers_of, untrusted
from stoker.client.masters import Attempts, Masters, parse_masters
from stoker.client.options import ClientOptions
from stoker.client.submission import SubmissionBody, new_boundary
from stoker.client.waiting import (
    BEFORE_THE_END,
    TellPhase,
    TellStatus,
    tell_no_phase,
    tell_nobody,
)
from stoker.core.checkpoints import SavepointSummary
from stoker.core.graph import JobGraph
from stoker.core.ids import AttemptId, JobId, ResourceId
from stoker.core.replacements import ReplacementPhase
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus

if TYPE_CHECKING:
    from stoker.savepoints.manifest import SavepointView

T = TypeVar("T")

OPERATION_POLL_SECONDS = 0.2

Sleep = Callable[[float], None]


class _Silence(Exception):
    """A master took the call and did not answer."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class BlockingClient:
    """Speaks to the masters named by one or more URLs, separated by commas."""

    def __init__(
        self, masters: str, options: ClientOptions | None = None, *, sleep: Sleep = time.sleep
    ) -> None:
        self._masters = Masters(parse_masters(masters))
        self._options = options or ClientOptions()
        self._connections = Connections(self._options)
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections that stay open between calls; another call opens one again."""
        self._connections.close()

    def submit(self, graph: JobGraph, artifacts: Mapping[str, Path] | None = None) -> JobSubmitted:
        """Files by their sha256. Repeated safely, since the graph carries the job's id."""
        body = SubmissionBody(graph, artifacts or {}, new_boundary())
        return self._call(calls.submit(body.length), body)

    def jobs(self) -> list[JobOverview]:
        return self._call(calls.jobs())

    def job(self, job_id: JobId) -> JobDetails:
        return self._call(calls.job(job_id))

    def status(self, job_id: JobId) -> JobStatus:
        return self._call(calls.status(job_id))

    def wait_for_change(self, job_id: JobId, known: JobStatus, seconds: float) -> JobStatus:
        """The status, as soon as it differs from the known one or the time is over."""
        return self._call(calls.change(job_id, known, seconds))

    def wait(self, job_id: JobId, tell: TellStatus = tell_nobody) -> JobStatus:
        """Return when the job has ended for good; `tell` hears of every change before."""
        if tell is tell_nobody:
            return self._end(job_id)
        status = self.status(job_id)
        while not status.globally_terminal:
            tell(status)
            known = status
            while status == known:
                status = self.wait_for_change(job_id, known, self._masters.wait_seconds)
        return status

    def _end(self, job_id: JobId) -> JobStatus:
        """Without being told of what comes before it: mostly a single request."""
        ending = calls.change(job_id, BEFORE_THE_END, self._masters.wait_seconds)
        while not (status := self._call(ending)).globally_terminal:
            pass
        return status

    def result(self, job_id: JobId) -> JobExecutionResult | None:
        """None while the job has not ended."""
        return self._call(calls.result(job_id))

    def plan(self, job_id: JobId) -> Plan:
        return self._call(calls.plan(job_id))

    def exceptions(self, job_id: JobId) -> ExceptionHistory:
        return self._call(calls.exceptions(job_id))

    def attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: str, offset: int = 0
    ) -> LogAnswer:
        """A piece of what the attempt wrote to stdout or stderr; empty at the present end."""
        return self._call(calls.attempt_log(job_id, attempt, stream, offset))

    def cancel(self, job_id: JobId) -> None:
        self._call(calls.cancel(job_id))

    def heartbeat(self, job_id: JobId, seconds: float) -> None:
        """This client is there; a job that is bound to it may miss it after so many seconds."""
        self._call(calls.client_heartbeat(job_id, seconds))

    def quarantined(self) -> list[Quarantined]:
        """Jobs that were accepted and cannot be loaded."""
        return self._call(calls.quarantined())

    def retry_quarantined(self, job_id: JobId) -> None:
        """Load it and start it; Conflict, with the reason, when that is still not possible."""
        self._call(calls.retry_quarantined(job_id))

    def drop_quarantined(self, job_id: JobId) -> None:
        """Give it up: it is recorded as FAILED, and what it left is removed."""
        self._call(calls.drop_quarantined(job_id))

    def queues(self) -> list[Queue]:
        return self._call(calls.queues())

    def drain(self, resource_id: ResourceId, seconds: float | None = None) -> None:
        """Let a task executor leave; batch tasks begin anew elsewhere after the given time."""
        self._call(calls.drain(resource_id, seconds))

    def shut_down(self) -> None:
        """End the whole cluster for good: on record when this returns, over a while later."""
        self._call(calls.shut_down())

    def begin_savepoint(
        self, job_id: JobId, directory: str | None = None, *, cancel: bool = False
    ) -> str:
        """The id of the operation; the cluster goes on with it."""
        trigger_id = os.urandom(16).hex()
        self._call(calls.savepoint(job_id, trigger_id, directory, cancel=cancel))
        return trigger_id

    def savepoint(
        self, job_id: JobId, directory: str | None = None, *, cancel: bool = False
    ) -> str:
        """Where it is, once it is there; SavepointFailed with the cause otherwise."""
        trigger_id = self.begin_savepoint(job_id, directory, cancel=cancel)
        return self._located(calls.savepoint_outcome(job_id, trigger_id))

    def begin_stop(
        self,
        job_id: JobId,
        directory: str | None = None,
        *,
        limit_seconds: float | None = None,
    ) -> str:
        """The id of the operation; the cluster goes on with it."""
        trigger_id = os.urandom(16).hex()
        self._call(calls.stop(job_id, trigger_id, directory, limit_seconds))
        return trigger_id

    def stop(
        self,
        job_id: JobId,
        directory: str | None = None,
        *,
        limit_seconds: float | None = None,
    ) -> str:
        """End the job at batch boundaries; where the savepoint of that moment is."""
        trigger_id = self.begin_stop(job_id, directory, limit_seconds=limit_seconds)
        return self._located(calls.savepoint_outcome(job_id, trigger_id))

    def savepoints(self, directory: str | None = None) -> list[SavepointSummary]:
        return self._call(calls.savepoints(directory))

    def show_savepoint(self, path: str) -> "SavepointView":
        """What is in it, as the masters see it; InvalidInput where there is none."""
        return self._call(calls.show_savepoint(path))

    def dispose_savepoint(self, path: str) -> None:
        trigger_id = os.urandom(16).hex()
        self._call(calls.dispose_savepoint(path, trigger_id))
        self._located(calls.disposal_outcome(trigger_id))

    def checkpoint(self, job_id: JobId) -> int:
        """The number of the next checkpoint, once it is made: with the next batch."""
        trigger_id = os.urandom(16).hex()
        self._call(calls.checkpoint(job_id, trigger_id))
        outcome = self._outcome(calls.checkpoint_outcome(job_id, trigger_id))
        return outcome.number or 0

    def _located(self, question: Call[SavepointOutcome]) -> str:
        return self._outcome(question).location or ""

    def _outcome(self, question: Call[SavepointOutcome]) -> SavepointOutcome:
        deadline = time.monotonic() + self._options.operation_timeout.total_seconds()
        while not (outcome := self._call(question)).done:
            if time.monotonic() >= deadline:
                raise operation_too_late(self._options)
            self._sleep(OPERATION_POLL_SECONDS)
        return successful(outcome)

    def begin_upgrade(
        self,
        job_id: JobId,
        graph: JobGraph,
        artifacts: Mapping[str, Path] | None = None,
        *,
        replacing: Replacing | None = None,
    ) -> str:
        """The cluster does it, whatever becomes of this client; the id to ask for it by."""
        trigger_id = os.urandom(16).hex()
        body = SubmissionBody(graph, artifacts or {}, new_boundary())
        wanted = replacing or Replacing()
        self._call(calls.upgrade(job_id, trigger_id, wanted, body.length), body)
        return trigger_id

    def begin_rescale(
        self, job_id: JobId, partitions: int, *, replacing: Replacing | None = None
    ) -> str:
        """As an upgrade, by the same job with its state divided into so many partitions."""
        trigger_id = os.urandom(16).hex()
        wanted = replacing or Replacing(window_seconds=0.0)
        self._call(calls.rescale(job_id, trigger_id, partitions, wanted))
        return trigger_id

    def replacement(
        self, job_id: JobId, trigger_id: str, tell: TellPhase = tell_no_phase
    ) -> ReplacementState:
        """How an upgrade or a rescale ended; `tell` hears of every phase before."""
        phase: ReplacementPhase | None = None
        while True:
            state = self._call(calls.replacement(job_id, trigger_id, phase))
            if state.over:
                return state
            if state.phase is not phase:
                tell(state)
            phase = state.phase

    def overview(self) -> Overview:
        return self._call(calls.overview())

    def task_executors(self) -> list[TaskManager]:
        return self._call(calls.task_executors())

    def _call(self, call: Call[T], body: SubmissionBody | None = None) -> T:
        attempts = Attempts(self._masters, self._options)
        while True:
            try:
                status, answer = self._exchange(attempts, call, body)
            except _Silence as silence:
                self._sleep(attempts.silent(silence.seconds))
                continue
            except (OSError, http.client.HTTPException) as error:
                self._sleep(attempts.unreachable(_reason(error)))
                continue
            if status not in COME_AGAIN:
                return value_of(call, status, answer)
            self._sleep(attempts.unavailable(error_of(status, answer).message))

    def _exchange(
        self, attempts: Attempts, call: Call[Any], body: SubmissionBody | None
    ) -> tuple[int, bytes]:
        url, patience = attempts.url, attempts.patience + call.waits
        kept = self._connections.take(url)
        if kept is not None:
            # The master may just have closed it; every call may be repeated.
            with suppress(ConnectionError, ssl.SSLError):
                return self._converse(kept, url, call, body, patience)
        connect_timeout = self._options.connect_timeout.total_seconds()
        try:
            connection = self._connections.open(url, min(connect_timeout, attempts.patience))
            return self._converse(connection, url, call, body, patience)
        except ssl.SSLError as error:
            raise untrusted(url, error) from error

    def _converse(
        self,
        connection: Connection,
        url: str,
        call: Call[Any],
        body: SubmissionBody | None,
        patience: float,
    ) -> tuple[int, bytes]:
        is_over = True
        try:
            connection.sock.settimeout(patience)
            headers = headers_of(self._options)
            _send(connection, urlsplit(url).path + call.target, call.method, headers, body)
            response = connection.getresponse()
            check_server(response.headers.get(SERVER_HEADER))
            status, answer = response.status, self._read(response)
            # A refusal may have come before the end of what was sent.
            refused = status >= http.HTTPStatus.BAD_REQUEST
            is_over = refused or response.will_close or not response.isclosed()
            return status, answer
        except TimeoutError as error:
            raise _Silence(patience) from error
        finally:
            if is_over:
                connection.close()
            else:
                self._connections.give_back(url, connection)

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        answer = response.read(self._options.max_content_length + 1)
        if len(answer) > self._options.max_content_length:
            raise answer_too_large(self._options)
        return answer


def _send(
    connection: Connection,
    target: str,
    method: str,
    headers: dict[str, str],
    body: SubmissionBody | None,
) -> None:
    if body is None:
        connection.request(method, target, headers=headers)
        return
    try:
        connection.request(method, target, body=body.pieces(), headers=headers | body.headers)
    except (BrokenPipeError, ConnectionResetError):
        # The server refused the body before its end, and its answer may already be here.
        return


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "connection timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
