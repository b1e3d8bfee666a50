"""A REST server in front of a dispatcher in memory with a few jobs, to test server and clients.

The dispatcher answers like the real one and can be told to refuse. Its jobs, those of
`sample_jobs`, are the same in every test.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec

from stoker.blob.server import BlobServer
from stoker.core.checkpoints import SavepointSummary
from stoker.core.errors import (
    DuplicateJob,
    InvalidJobGraph,
    JobAlreadyEnded,
    JobNotFound,
    JobQuarantined,
    NotFound,
)
from stoker.core.graph import JobGraph, Program, Sink, SqlScript
from stoker.core.ids import AttemptId, BlobKey, Ids, InstanceId, JobId, ResourceId, SessionId
from stoker.core.replacements import Replacement, ReplacementPhase, ReplacementRequest
from stoker.core.results import JobDetails, JobResult, summary_of
from stoker.core.rows import Column, QueryResult
from stoker.core.states import ApplicationStatus, ExecutionState, JobStatus
from stoker.events.event import LoggedEvent
from stoker.events.layout import LogState
from stoker.events.query import EventPage, EventQuery, LogPart, answer
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.gateways.dispatcher import (
    CallerRights,
    ClusterOverview,
    DispatcherGateway,
    JobsSince,
    QuarantinedJob,
    QueueOverview,
    RowsPiece,
    Submitted,
)
from stoker.gateways.inspection import InspectionGateway, LoggedFile, LogListing
from stoker.gateways.resourcemanager import ResourceOverview, TaskExecutorDetails
from stoker.metrics.catalogue import CPU, RESIDENT, STARTED
from stoker.metrics.process import measure_process
from stoker.metrics.registry import MetricFamily, MetricRegistry, MetricSample
from stoker.rest.app import build_app
from stoker.rest.http.page_access import PageSessions
from stoker.rest.options import RestOptions
from stoker.rest.programs.store import ProgramStore
from stoker.rest.server import serving
from stoker.rest.services import RestServices
from stoker.savepoints.places import Places
from stoker.security.audit import AuditLog
from stoker.security.material import TlsMaterial, client_context
from stoker.security.submission_limits import SubmissionLimits
from stoker.security.tokens import Role, TokenFile
from stoker.storage.memory import MemoryStorage
from stoker.testing.sample_jobs import (
    CANCELED,
    EXECUTOR,
    FAILED,
    FINISHED,
    NOW,
    RUNNING,
    START,
    job_details,
)

QUERY_RESULT = QueryResult(
    statement="SELECT id, name FROM people",
    columns=(Column(name="id", type="long"), Column(name="name", type="string")),
    pieces=(2, 1),
    truncated="only the first 3 rows are kept (sql.result.max-rows)",
)
"""What the only query of the job FINISHED returned."""


class DispatcherInMemory(DispatcherGateway):
    """A dispatcher with a few jobs; submitted jobs run until a test changes their state."""

    def __init__(self) -> None:
        self.jobs = {
            job.job_id: job
            for job in (
                job_details(RUNNING, JobStatus.RUNNING, ExecutionState.RUNNING),
                job_details(FINISHED, JobStatus.FINISHED, ExecutionState.FINISHED),
                job_details(FAILED, JobStatus.FAILED, ExecutionState.FAILED),
                job_details(CANCELED, JobStatus.CANCELED, ExecutionState.CANCELED),
            )
        }
        self.graphs: dict[JobId, JobGraph] = {}
        self.quarantine: dict[JobId, QuarantinedJob] = {}
        self.repaired: set[JobId] = set()
        """Jobs in quarantine whose next retry succeeds."""
        self.cancelled: list[JobId] = []
        self.shut_down_as: list[ApplicationStatus] = []
        self.was_shut_down = asyncio.Event()
        self.replacements: dict[str, Replacement] = {}
        self.drained: list[tuple[ResourceId, float | None]] = []
        self.waits: list[tuple[tuple[JobStatus, ...], float]] = []
        self.asked_to_wait = asyncio.Event()
        self.changed = asyncio.Event()
        self.refusal: Exception | None = None
        """If set, most calls raise it."""
        self.gate = asyncio.Event()
        """`jobs_since` waits for it; set unless a test clears it."""
        self.gate.set()
        self.events: list[LoggedEvent] = []
        """The event log."""
        self.arrived = asyncio.Event()
        """Set by the first call of `jobs_since`."""

    def set_status(self, job_id: JobId, status: JobStatus) -> None:
        state = ExecutionState.RUNNING
        if status.globally_terminal:
            state = ExecutionState(status.value)
        self.jobs[job_id] = job_details(job_id, status, state)
        self.changed.set()
        self.changed = asyncio.Event()

    def put_into_quarantine(self, job_id: JobId) -> None:
        self.quarantine[job_id] = QuarantinedJob(
            job_id=job_id,
            reason="its graph cannot be understood",
            since=START,
            pointer=f"jobs/{job_id}/graph/1.json",
        )

    def _check(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    async def submit_job(
        self, graph: JobGraph, owner: str = "", rights: CallerRights | None = None
    ) -> Submitted:
        self._check()
        if not any(isinstance(vertex, Sink | SqlScript | Program) for vertex in graph.vertices):
            raise InvalidJobGraph(["the graph has no sink", "add one"])
        known = self.graphs.get(graph.job_id)
        if known is None and graph.job_id in self.jobs:
            raise DuplicateJob(graph.job_id, globally_terminated=True)
        self.graphs[graph.job_id] = graph
        details = job_details(graph.job_id, JobStatus.RUNNING, ExecutionState.RUNNING)
        self.jobs.setdefault(graph.job_id, msgspec.structs.replace(details, owner=owner))
        return Submitted(job_id=graph.job_id, repeated=known is not None)

    async def jobs_since(
        self, leader: SessionId | None, revision: int, live_revision: int = -1
    ) -> JobsSince:
        self.arrived.set()
        await self.gate.wait()
        self._check()
        jobs = [summary_of(job) for job in self.jobs.values()]
        return JobsSince(
            leader=SessionId("leader"),
            revision=revision + 1,
            live=tuple(job for job in jobs if job.end is None),
            ended=tuple(job for job in jobs if job.end is not None),
            whole=True,
        )

    async def job_details(self, job_id: JobId) -> JobDetails:
        self._check()
        if (job := self.quarantine.get(job_id)) is not None:
            raise JobQuarantined(job_id, job.reason, cancel_wanted=job.cancel_wanted)
        if job_id not in self.jobs:
            raise JobNotFound(job_id)
        return self.jobs[job_id]

    async def job_status(self, job_id: JobId) -> JobStatus:
        return (await self.job_details(job_id)).status

    async def job_owner(self, job_id: JobId) -> str:
        if job_id in self.quarantine:
            return self.quarantine[job_id].owner
        return (await self.job_details(job_id)).owner

    async def job_result(self, job_id: JobId) -> JobResult | None:
        job = await self.job_details(job_id)
        if job.end is None:
            return None
        return JobResult(
            job_id=job_id,
            name=job.name,
            job_type=job.job_type,
            status=job.status,
            start=job.start,
            end=job.end,
            failure=job.failures[0].failure if job.failures else None,
        )

    async def wait_for_change(
        self, job_id: JobId, known: tuple[JobStatus, ...], seconds: float
    ) -> JobStatus:
        self.waits.append((known, seconds))
        self.asked_to_wait.set()
        while (await self.job_status(job_id)) in known:
            try:
                async with asyncio.timeout(seconds):
                    await self.changed.wait()
            except TimeoutError:
                break
        return await self.job_status(job_id)

    async def cancel_job(self, job_id: JobId) -> None:
        if (found := self.quarantine.get(job_id)) is not None:
            self.quarantine[job_id] = msgspec.structs.replace(found, cancel_wanted=True)
            return
        job = await self.job_details(job_id)
        if job.status in (JobStatus.FINISHED, JobStatus.FAILED):
            raise JobAlreadyEnded(job_id, job.status)
        self.cancelled.append(job_id)

    async def quarantined(self) -> list[QuarantinedJob]:
        self._check()
        return [self.quarantine[job_id] for job_id in sorted(self.quarantine)]

    async def retry_quarantined(self, job_id: JobId) -> None:
        job = self._quarantined(job_id)
        if job_id not in self.repaired:
            raise JobQuarantined(job_id, job.reason)
        del self.quarantine[job_id]
        self.set_status(job_id, JobStatus.RUNNING)

    async def drop_quarantined(self, job_id: JobId) -> None:
        self._quarantined(job_id)
        del self.quarantine[job_id]
        self.set_status(job_id, JobStatus.FAILED)

    def _quarantined(self, job_id: JobId) -> QuarantinedJob:
        self._check()
        if job_id not in self.quarantine:
            raise NotFound(f"no job with id {job_id} is in quarantine")
        return self.quarantine[job_id]

    async def read_events(self, query: EventQuery) -> EventPage:
        self._check()
        state = LogState().with_recent(self.events)

        async def read(part: LogPart) -> Sequence[LoggedEvent]:
            return state.recent

        return await answer(query, state, read)

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        await self.job_details(job_id)
        raise NotFound(f"job {job_id} has no attempt {attempt}")

    async def read_rows(self, job_id: JobId, query: int | None, offset: int) -> RowsPiece:
        await self.job_details(job_id)
        if job_id != FINISHED or query not in (None, 1):
            raise NotFound(f"job {job_id} has no rows")
        # Two pieces, of two rows and of one.
        rows = ([[1, "a"], [2, None]], [[3, "c"]])[offset // 2][offset % 2 :] if offset < 3 else []
        return RowsPiece(queries=1, query=1, result=QUERY_RESULT, rows=msgspec.json.encode(rows))

    async def queues(self) -> list[QueueOverview]:
        self._check()
        return [
            QueueOverview(
                name="nightly",
                running=1,
                slots=2,
                slots_in_use=2,
                max_running=1,
                waiting=(RUNNING,),
            )
        ]

    async def savepoints(self, directory: str | None) -> list[SavepointSummary]:
        return []

    async def retained_checkpoints(self) -> list[SavepointSummary]:
        return []

    async def drain_task_executor(self, resource_id: ResourceId, seconds: float | None) -> None:
        self._check()
        if resource_id != EXECUTOR:
            raise NotFound(f"no task executor with id {resource_id} is registered")
        self.drained.append((resource_id, seconds))

    async def shut_down_cluster(self, status: ApplicationStatus) -> None:
        self.shut_down_as.append(status)
        self.was_shut_down.set()

    async def trigger_replacement(
        self, request: ReplacementRequest, rights: CallerRights | None = None
    ) -> None:
        await self.job_details(request.job_id)
        self.replacements[request.trigger_id] = Replacement(
            job_id=request.job_id,
            trigger_id=request.trigger_id,
            kind=request.kind,
            digest="",
            new_id=JobId("d" * 32),
            back_id=JobId("e" * 32),
            directory="/saved",
            order="1",
            began=START,
            changed=START,
            partitions=request.partitions,
        )

    async def replacement_status(
        self, job_id: JobId, trigger_id: str, known: ReplacementPhase | None, seconds: float
    ) -> Replacement:
        found = self.replacements.get(trigger_id)
        if found is None or found.job_id != job_id:
            raise NotFound(f"no replacement of job {job_id} was triggered with id {trigger_id}")
        return found

    async def cluster_overview(self) -> ClusterOverview:
        self._check()
        return ClusterOverview(
            resources=ResourceOverview(task_executors=1, slots_total=4, slots_free=2),
            jobs_running=1,
            jobs_finished=1,
            jobs_cancelled=1,
            jobs_failed=1,
        )

    async def task_executors(self) -> list[TaskExecutorDetails]:
        self._check()
        return [
            TaskExecutorDetails(
                resource_id=EXECUTOR,
                instance=InstanceId("9" * 32),
                address="grpc://127.0.0.1:6122/taskexecutor",
                slots_total=4,
                slots_free=2,
                last_heartbeat=NOW - 500,
                cores=4,
                memory_bytes=4 * 1024 * 1024 * 1024,
                jobs=(RUNNING, RUNNING),
            )
        ]


class BlobsInMemory(BlobServer):
    """A blob server that keeps files without a storage, and can be told to refuse them."""

    def __init__(self) -> None:
        self.content: dict[tuple[JobId, str], bytes] = {}
        self.refusal: Exception | None = None

    async def adopt(
        self, job_id: JobId, source: Path, *, sha256: str, size: int, name: str = ""
    ) -> BlobKey:
        assert source.stat().st_size == size  # noqa: ASYNC240
        key = await self.put_file(job_id, source, sha256=sha256)
        source.unlink()  # noqa: ASYNC240
        return key

    async def put_file(
        self, job_id: JobId, source: Path, *, sha256: str, name: str = ""
    ) -> BlobKey:
        if self.refusal is not None:
            raise self.refusal
        content = source.read_bytes()  # noqa: ASYNC240
        self.content[job_id, sha256] = content
        return BlobKey(f"{job_id}/{sha256}")

    async def check_room(self, size: int = 0) -> None:
        if self.refusal is not None:
            raise self.refusal

    async def delete_job(self, job_id: JobId) -> None:
        self.content = {key: value for key, value in self.content.items() if key[0] != job_id}


class InspectionInMemory(InspectionGateway):
    """A process with one log file."""

    def __init__(self) -> None:
        self.files = {"process.log": b"it began\n" * 100_000, "process.out": b""}

    async def metrics(self) -> list[MetricFamily]:
        values = {RESIDENT: 1000.0, CPU: 5.0, STARTED: START / 1000}
        return [
            MetricFamily(name=definition.name, samples=(MetricSample(value=value),))
            for definition, value in values.items()
        ]

    async def threads(self) -> dict[str, str]:
        return {"MainThread": '"MainThread" Id=1\n  File "x.py", line 1'}

    async def logs(self) -> LogListing:
        files = tuple(
            LoggedFile(name=name, size=len(content), modified=START)
            for name, content in self.files.items()
        )
        return LogListing(files=files, main_log="process.log", main_output="process.out")

    async def read_log(self, name: str, offset: int, length: int) -> bytes:
        if name not in self.files:
            raise NotFound(f"no log file {name!r}")
        return self.files[name][offset : offset + length]


def _measured_process() -> MetricRegistry:
    registry = MetricRegistry()
    measure_process(registry.process, version="0.1.0", component="master", resource_id="master-1")
    return registry


@dataclass(kw_only=True)
class Master:
    """A REST server and everything behind it."""

    dispatcher: DispatcherInMemory = field(default_factory=DispatcherInMemory)
    blobs: BlobsInMemory = field(default_factory=BlobsInMemory)
    options: RestOptions = field(default_factory=lambda: RestOptions(bind_port="0"))
    inspection: InspectionInMemory = field(default_factory=InspectionInMemory)
    storage: MemoryStorage = field(default_factory=lambda: MemoryStorage(lambda: NOW))
    leading: bool = True
    leader: str | None = None
    epoch: int = 7
    proof: str | None = None
    """What the masters of a test know to prove that they forward requests."""
    places: Places = field(default_factory=Places)
    tokens: TokenFile | None = None
    page_sessions: PageSessions = field(default_factory=PageSessions)
    tls: TlsMaterial | None = None
    asks_for_certificates: bool = False
    local_user: str = ""
    submission_limits: Mapping[Role, SubmissionLimits] = field(default_factory=dict)
    roles_of_certificates: Mapping[str, Role] = field(default_factory=dict)
    audit: AuditLog | None = None
    metrics: MetricRegistry = field(default_factory=_measured_process)

    async def inspect(self, address: str) -> InspectionGateway:
        return self.inspection

    async def find_dispatcher(self) -> DispatcherGateway:
        return self.dispatcher

    @property
    def services(self) -> RestServices:
        return RestServices(
            dispatcher=self.find_dispatcher,
            blobs=self.blobs,
            leads=lambda: self.leading,
            leader_url=lambda: self.leader,
            epoch=lambda: self.epoch,
            forwarding_url=lambda: self.leader,
            forwarding_proof=lambda: self.proof,
            places=self.places,
            options=self.options,
            version="0.1.0",
            clock=lambda: NOW,
            configuration={"rest.bind-port": "0", "some.password": "******"},
            inspection=self.inspection,
            process_at=self.inspect,
            programs=ProgramStore(self.storage, Ids(), lambda: NOW),
            tokens=self.tokens,
            page_sessions=self.page_sessions,
            local_user=self.local_user,
            submission_limits=self.submission_limits,
            roles_of_certificates=self.roles_of_certificates,
            audit=self.audit,
            trust=self._trust,
            metrics=self.metrics,
        )

    @property
    def _trust(self) -> ssl.SSLContext | None:
        if self.tls is None:
            return None
        return client_context(self.tls.authorities, self.tls.certificate, self.tls.key)

    def in_process(self) -> httpx.AsyncClient:
        """Requests without a network."""
        transport = httpx.ASGITransport(
            cast(Any, build_app(self.services)), raise_app_exceptions=False
        )
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081")

    def serving(self) -> AbstractAsyncContextManager[str]:
        return serving(
            build_app(self.services),
            self.options,
            authenticated=self.tokens is not None,
            tls=self.tls,
            asks_for_certificates=self.asks_for_certificates,
        )


def parts(graph: JobGraph | bytes, *files: bytes, name: str = "lib.whl") -> list[Any]:
    """The multipart form of a submission, as httpx expects it."""
    content = graph if isinstance(graph, bytes) else msgspec.json.encode(graph)
    return [
        ("graph", ("graph.json", content, "application/json")),
        *(("artifact", (name, file)) for file in files),
    ]
