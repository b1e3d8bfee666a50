"""The client for programs with an event loop."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

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
from stoker.client.identity import check_server, context_for, headers_of, untrusted
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

AsyncSleep = Callable[[float], Awaitable[None]]


class AsyncClient:
    """Speaks to the masters named by one or more URLs, separated by commas.

    An async context manager: connections are kept open until its end.
    """

    def __init__(
        self,
        masters: str,
        options: ClientOptions | None = None,
        *,
        sleep: AsyncSleep = asyncio.sleep,
    ) -> None:
        self._masters = Masters(parse_masters(masters))
        self._options = options or ClientOptions()
        self._sleep = sleep
        self._http = httpx.AsyncClient(trust_env=False, verify=self._trust())

    def _trust(self) -> ssl.SSLContext | bool:
        contexts = (context_for(url, self._options) for url in self._masters.urls)
        return next((context for context in contexts if context is not None), True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def submit(
        self, graph: JobGraph, artifacts: Mapping[str, Path] | None = None
    ) -> JobSubmitted:
        """Files by their sha256. Repeated safely, since the graph carries the job's id."""
        body = SubmissionBody(graph, artifacts or {}, new_boundary())
        return await self._call(calls.submit(body.length), body)

    async def jobs(self) -> list[JobOverview]:
        return await self._call(calls.jobs())

    async def job(self, job_id: JobId) -> JobDetails:
        return await self._call(calls.job(job_id))

    async def status(self, job_id: JobId) -> JobStatus:
        return await self._call(calls.status(job_id))

    async def wait_for_change(self, job_id: JobId, known: JobStatus, seconds: float) -> JobStatus:
        """The status, as soon as it differs from the known one or the time is over."""
        return await self._call(calls.change(job_id, known, seconds))

    async def wait(self, job_id: JobId, tell: TellStatus = tell_nobody) -> JobStatus:
        """Return when the job has ended for good; `tell` hears of every change before."""
        if tell is tell_nobody:
            return await self._end(job_id)
        status = await self.status(job_id)
        while not status.globally_terminal:
            tell(status)
            known = status
            while status == known:
                status = await self.wait_for_change(job_id, known, self._masters.wait_seconds)
        return status

    async def _end(self, job_id: JobId) -> JobStatus:
        """Without being told of what comes before it: mostly a single request."""
        ending = calls.change(job_id, BEFORE_THE_END, self._masters.wait_seconds)
        while not (status := await self._call(ending)).globally_terminal:
            pass
        return status

    async def result(self, job_id: JobId) -> JobExecutionResult | None:
        """None while the job has not ended."""
        return await self._call(calls.result(job_id))

    async def plan(self, job_id: JobId) -> Plan:
        return await self._call(calls.plan(job_id))

    async def exceptions(self, job_id: JobId) -> ExceptionHistory:
        return await self._call(calls.exceptions(job_id))

    async def attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: str, offset: int = 0
    ) -> LogAnswer:
        """A piece of what the attempt wrote to stdout or stderr; empty at the present end."""
        return await self._call(calls.attempt_log(job_id, attempt, stream, offset))

    async def cancel(self, job_id: JobId) -> None:
        await self._call(calls.cancel(job_id))

    async def heartbeat(self, job_id: JobId, seconds: float) -> None:
        """This client is there; a job that is bound to it may miss it after so many seconds."""
        await self._call(calls.client_heartbeat(job_id, seconds))

    async def quarantined(self) -> list[Quarantined]:
        """Jobs that were accepted and cannot be loaded."""
        return await self._call(calls.quarantined())

    async def retry_quarantined(self, job_id: JobId) -> None:
        """Load it and start it; Conflict, with the reason, when that is still not possible."""
        await self._call(calls.retry_quarantined(job_id))

    async def drop_quarantined(self, job_id: JobId) -> None:
        """Give it up: it is recorded as FAILED, and what it left is removed."""
        await self._call(calls.drop_quarantined(job_id))

    async def queues(self) -> list[Queue]:
        return await self._call(calls.queues())

    async def drain(self, resource_id: ResourceId, seconds: float | None = None) -> None:
        """Let a task executor leave; batch tasks begin anew elsewhere after the given time."""
        await self._call(calls.drain(resource_id, seconds))

    async def shut_down(self) -> None:
        """End the whole cluster for good: on record when this returns, over a while later."""
        await self._call(calls.shut_down())

    async def begin_savepoint(
        self, job_id: JobId, directory: str | None = None, *, cancel: bool = False
    ) -> str:
        """The id of the operation; the cluster goes on with it."""
        trigger_id = os.urandom(16).hex()
        await self._call(calls.savepoint(job_id, trigger_id, directory, cancel=cancel))
        return trigger_id

    async def savepoint(
        self, job_id: JobId, directory: str | None = None, *, cancel: bool = False
    ) -> str:
        """Where it is, once it is there; SavepointFailed with the cause otherwise."""
        trigger_id = await self.begin_savepoint(job_id, directory, cancel=cancel)
        return await self._located(calls.savepoint_outcome(job_id, trigger_id))

    async def begin_stop(
        self,
        job_id: JobId,
        directory: str | None = None,
        *,
        limit_seconds: float | None = None,
    ) -> str:
        """The id of the operation; the cluster goes on with it."""
        trigger_id = os.urandom(16).hex()
        await self._call(calls.stop(job_id, trigger_id, directory, limit_seconds))
        return trigger_id

    async def stop(
        self,
        job_id: JobId,
        directory: str | None = None,
        *,
        limit_seconds: float | None = None,
    ) -> str:
        """End the job at batch boundaries; where the savepoint of that moment is."""
        trigger_id = await self.begin_stop(job_id, directory, limit_seconds=limit_seconds)
        return await self._located(calls.savepoint_outcome(job_id, trigger_id))

    async def savepoints(self, directory: str | None = None) -> list[SavepointSummary]:
        return await self._call(calls.savepoints(directory))

    async def show_savepoint(self, path: str) -> "SavepointView":
        """What is in it, as the masters see it; InvalidInput where there is none."""
        return await self._call(calls.show_savepoint(path))

    async def dispose_savepoint(self, path: str) -> None:
        trigger_id = os.urandom(16).hex()
        await self._call(calls.dispose_savepoint(path, trigger_id))
        await self._located(calls.disposal_outcome(trigger_id))

    async def checkpoint(self, job_id: JobId) -> int:
        """The number of the next checkpoint, once it is made: with the next batch."""
        trigger_id = os.urandom(16).hex()
        await self._call(calls.checkpoint(job_id, trigger_id))
        outcome = await self._outcome(calls.checkpoint_outcome(job_id, trigger_id))
        return outcome.number or 0

    async def _located(self, question: Call[SavepointOutcome]) -> str:
        return (await self._outcome(question)).location or ""

    async def _outcome(self, question: Call[SavepointOutcome]) -> SavepointOutcome:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.operation_timeout.total_seconds()
        while not (outcome := await self._call(question)).done:
            if loop.time() >= deadline:
                raise operation_too_late(self._options)
            await self._sleep(OPERATION_POLL_SECONDS)
        return successful(outcome)

    async def begin_upgrade(
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
        await self._call(calls.upgrade(job_id, trigger_id, wanted, body.length), body)
        return trigger_id

    async def begin_rescale(
        self, job_id: JobId, partitions: int, *, replacing: Replacing | None = None
    ) -> str:
        """As an upgrade, by the same job with its state divided into so many partitions."""
        trigger_id = os.urandom(16).hex()
        wanted = replacing or Replacing(window_seconds=0.0)
        await self._call(calls.rescale(job_id, trigger_id, partitions, wanted))
        return trigger_id

    async def replacement(
        self, job_id: JobId, trigger_id: str, tell: TellPhase = tell_no_phase
    ) -> ReplacementState:
        """How an upgrade or a rescale ended; `tell` hears of every phase before."""
        phase: ReplacementPhase | None = None
        while True:
            state = await self._call(calls.replacement(job_id, trigger_id, phase))
            if state.over:
                return state
            if state.phase is not phase:
                tell(state)
            phase = state.phase

    async def overview(self) -> Overview:
        return await self._call(calls.overview())

    async def task_executors(self) -> list[TaskManager]:
        return await self._call(calls.task_executors())

    async def _call(self, call: Call[T], body: SubmissionBody | None = None) -> T:
        attempts = Attempts(self._masters, self._options)
        while True:
            try:
                status, answer = await self._exchange(attempts, call, body)
            except (httpx.ReadTimeout, httpx.WriteTimeout):
                await self._sleep(attempts.silent(attempts.patience + call.waits))
                continue
            except httpx.TransportError as error:
                doubt = _doubt_in(error)
                if doubt is not None:
                    raise untrusted(attempts.url, doubt) from error
                await self._sleep(attempts.unreachable(_reason(error)))
                continue
            if status not in COME_AGAIN:
                return value_of(call, status, answer)
            await self._sleep(attempts.unavailable(error_of(status, answer).message))

    async def _exchange(
        self, attempts: Attempts, call: Call[Any], body: SubmissionBody | None
    ) -> tuple[int, bytes]:
        patience = attempts.patience
        connect = min(self._options.connect_timeout.total_seconds(), patience)
        request = self._http.build_request(
            call.method,
            attempts.url + call.target,
            headers=headers_of(self._options) | ({} if body is None else body.headers),
            content=None if body is None else _pieces(body),
            timeout=httpx.Timeout(patience + call.waits, connect=connect),
        )
        response = await self._http.send(request, stream=True)
        try:
            check_server(response.headers.get(SERVER_HEADER))
            return response.status_code, await self._read(response)
        finally:
            await response.aclose()

    async def _read(self, response: httpx.Response) -> bytes:
        answer = bytearray()
        async for chunk in response.aiter_bytes():
            answer += chunk
            if len(answer) > self._options.max_content_length:
                raise answer_too_large(self._options)
        return bytes(answer)


async def _pieces(body: SubmissionBody) -> AsyncIterator[bytes]:
    pieces = body.pieces()
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


def _doubt_in(error: BaseException | None) -> ssl.SSLError | None:
    """httpx has no error of its own for a certificate that is not trusted."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def _reason(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return "connection timed out"
    if isinstance(error, httpx.ConnectError):
        # The library's words for a refusal, which tell nothing; others name the reason.
        return str(error).replace("All connection attempts failed", "connection refused")
    return str(error) or type(error).__name__
