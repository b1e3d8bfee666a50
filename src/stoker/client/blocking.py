"""The client for programs without an event loop, above all the command line.

It uses http.client: importing httpx takes longer than a whole `stoker list` may.
"""

import http.client
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from stoker.api.cluster import Overview, TaskManager
from stoker.api.jobs import ExceptionHistory, JobExecutionResult, JobOverview, Plan
from stoker.api.quarantine import Quarantined
from stoker.api.submission import JobSubmitted
from stoker.client import calls
from stoker.client.answers import answer_too_large, answer_too_late, error_of, value_of
from stoker.client.calls import Call
from stoker.client.masters import Attempts, Masters, parse_masters
from stoker.client.options import ClientOptions
from stoker.client.submission import SubmissionBody, new_boundary
from stoker.client.waiting import TellStatus, tell_nobody
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus

T = TypeVar("T")

Sleep = Callable[[float], None]


class BlockingClient:
    """Speaks to the masters named by one or more URLs, separated by commas."""

    def __init__(
        self, masters: str, options: ClientOptions | None = None, *, sleep: Sleep = time.sleep
    ) -> None:
        self._masters = Masters(parse_masters(masters))
        self._options = options or ClientOptions()
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing stays open between calls."""

    def submit(self, graph: JobGraph, artifacts: Mapping[str, Path] | None = None) -> JobSubmitted:
        """Files by their sha256. Repeated safely, since the graph carries the job's id."""
        body = SubmissionBody(graph, artifacts or {}, new_boundary())
        return self._call(calls.submit(), body)

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
        status = self.status(job_id)
        while not status.globally_terminal:
            tell(status)
            known = status
            while status == known:
                status = self._call(calls.change(job_id, known))
        return status

    def result(self, job_id: JobId) -> JobExecutionResult | None:
        """None while the job has not ended."""
        return self._call(calls.result(job_id))

    def plan(self, job_id: JobId) -> Plan:
        return self._call(calls.plan(job_id))

    def exceptions(self, job_id: JobId) -> ExceptionHistory:
        return self._call(calls.exceptions(job_id))

    def cancel(self, job_id: JobId) -> None:
        self._call(calls.cancel(job_id))

    def quarantined(self) -> list[Quarantined]:
        """Jobs that were accepted and cannot be loaded."""
        return self._call(calls.quarantined())

    def retry_quarantined(self, job_id: JobId) -> None:
        """Load it and start it; Conflict, with the reason, when that is still not possible."""
        self._call(calls.retry_quarantined(job_id))

    def drop_quarantined(self, job_id: JobId) -> None:
        """Give it up: it is recorded as FAILED, and what it left is removed."""
        self._call(calls.drop_quarantined(job_id))

    def overview(self) -> Overview:
        return self._call(calls.overview())

    def task_executors(self) -> list[TaskManager]:
        return self._call(calls.task_executors())

    def _call(self, call: Call[T], body: SubmissionBody | None = None) -> T:
        attempts = Attempts(self._masters, self._options)
        while True:
            try:
                status, answer = self._exchange(attempts.url, call, body)
            except (OSError, http.client.HTTPException) as error:
                self._sleep(attempts.unreachable(_reason(error)))
                continue
            if status != 503:
                return value_of(call, status, answer)
            self._sleep(attempts.unavailable(error_of(status, answer).message))

    def _exchange(
        self, url: str, call: Call[Any], body: SubmissionBody | None
    ) -> tuple[int, bytes]:
        connection = _connection(url, self._options.connect_timeout.total_seconds())
        patience = self._options.timeout.total_seconds() + call.waits
        try:
            connection.connect()
            connection.sock.settimeout(patience)
            _send(connection, urlsplit(url).path + call.target, call.method, body)
            response = connection.getresponse()
            return response.status, self._read(response)
        except TimeoutError as error:
            if connection.sock is None:
                raise
            raise answer_too_late(url, patience) from error
        finally:
            connection.close()

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        answer = response.read(self._options.max_content_length + 1)
        if len(answer) > self._options.max_content_length:
            raise answer_too_large(self._options)
        return answer


def _connection(url: str, timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=timeout)


def _send(
    connection: http.client.HTTPConnection, target: str, method: str, body: SubmissionBody | None
) -> None:
    if body is None:
        connection.request(method, target)
        return
    try:
        connection.request(method, target, body=body.pieces(), headers=body.headers)
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
