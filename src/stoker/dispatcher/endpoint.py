"""The dispatcher: takes jobs, makes them durable, starts them, knows them all."""

import asyncio
import logging
from typing import assert_never

import msgspec

from stoker.core.checkpoints import SavepointRequest, SavepointSummary
from stoker.core.checks.validation import validate
from stoker.core.errors import (
    CannotTakeSavepoint,
    DuplicateJob,
    InvalidInput,
    JobAlreadyEnded,
    JobNotFound,
    NoLeader,
    NotFound,
    StokerError,
)
from stoker.core.graph import JobGraph, JobType
from stoker.core.ids import AttemptId, BlobKey, JobId, ResourceId, SessionId
from stoker.core.replacements import Replacement, ReplacementPhase, ReplacementRequest
from stoker.core.results import JobDetails, JobResult
from stoker.core.states import ApplicationStatus, JobStatus
from stoker.core.values import FencingToken
from stoker.dispatcher.attached_clients import AttachedClients
from stoker.dispatcher.attempt_logs import AttemptLogReader
from stoker.dispatcher.ended_jobs import EndedJobs
from stoker.dispatcher.job_locks import JobLocks
from stoker.dispatcher.jobs import LiveJobs
from stoker.dispatcher.quarantine import Quarantine, was_dropped
from stoker.dispatcher.queues import Queues
from stoker.dispatcher.replacements.driver import Hands
from stoker.dispatcher.replacements.registry import Replacements
from stoker.dispatcher.savepoints import SavepointTriggers
from stoker.dispatcher.services import DispatcherServices
from stoker.dispatcher.shutdown.run import ClusterShutdown
from stoker.dispatcher.stores import Stores
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.gateways.dispatcher import (
    DISPATCHER,
    ClusterOverview,
    DispatcherGateway,
    JobsSince,
    QuarantinedJob,
    QueueOverview,
    SavepointStatus,
    Submitted,
)
from stoker.gateways.job import JobToRun
from stoker.gateways.resourcemanager import ResourceManagerGateway, TaskExecutorDetails
from stoker.ha.stores.job_graphs import AlreadyAccepted, IdInUse, PutOutcome, Stored
from stoker.rpc.service import Endpoint
from stoker.savepoints.catalog import dispose, list_savepoints
from stoker.savepoints.restore import check_origin

log = logging.getLogger(__name__)


class Dispatcher(Endpoint):
    gateway = DispatcherGateway

    def __init__(
        self,
        services: DispatcherServices,
        *,
        stores: Stores,
        live: LiveJobs,
        ended: EndedJobs,
        quarantine: Quarantine,
        locks: JobLocks,
        queues: Queues,
        triggers: SavepointTriggers,
        replacements: Replacements,
        shutdown: ClusterShutdown,
        token: FencingToken,
    ) -> None:
        super().__init__(DISPATCHER, token=token)
        self._services = services
        self._stores = stores
        self._live = live
        self._ended = ended
        self._quarantine = quarantine
        self._locks = locks
        self.clients = AttachedClients()
        self._triggers = triggers
        self._replacements = replacements
        self.hands = Hands(
            submit=self.submit_job,
            details=self.job_details,
            cancel=self.cancel_job,
            check_takes_savepoints=self._check_takes_savepoints,
            check_artifacts=self._check_artifacts,
            trigger_savepoint=self.trigger_savepoint,
            savepoint_status=self.savepoint_status,
        )
        self._shutdown = shutdown
        self._queues = queues
        self._logs = AttemptLogReader(services.rpc, services.storage, self.task_executors)

    # Submission

    async def submit_job(self, graph: JobGraph) -> Submitted:
        """Persist, then acknowledge, then run. Who creates the record decides about duplicates."""
        validate(graph, max_bytes=self._services.options.max_graph_size)
        with self._shutdown.counting_submission():
            return await self._admit(graph)

    async def _admit(self, graph: JobGraph) -> Submitted:
        now = self._services.wall_clock()
        # The sweep removes no file of the job between the look at its files and its record.
        async with self._locks(graph.job_id):
            outcome: PutOutcome | None = await self._stores.graphs.known(graph)
            if outcome is None:
                # Before it is durable: what is refused leaves nothing behind.
                self._shutdown.check()
                self._queues.check(graph)
                await self._check_artifacts(graph)
                if graph.restore is not None:
                    await check_origin(graph, self._services.savepoints.open_storage)
                outcome = await self._stores.graphs.add(graph, submitted_at=now)
        match outcome:
            case AlreadyAccepted(job_id=job_id):
                return Submitted(job_id=job_id, repeated=True)
            case IdInUse(job_id=job_id, ended=ended):
                raise DuplicateJob(
                    job_id, globally_terminated=ended, detail="with another job graph"
                )
            case Stored():
                log.info("job %s (%s) is accepted", graph.job_id, graph.name)
                self._live.start(JobToRun(graph=graph, submitted_at=now))
                return Submitted(job_id=graph.job_id)
            case _:
                assert_never(outcome)

    async def _check_artifacts(self, graph: JobGraph) -> None:
        keys = [artifact.key or BlobKey(artifact.sha256) for artifact in graph.artifacts]
        missing = await self._services.blobs.missing(graph.job_id, keys) if keys else ()
        if missing:
            names = [a.name for a in graph.artifacts if (a.key or a.sha256) in missing]
            raise InvalidInput(
                f"the job names files that were not uploaded: {', '.join(names)}; submit it again "
                "together with them",
                missing=names,
            )

    # What is known of jobs

    def jobs_since(
        self, leader: SessionId | None, revision: int, live_revision: int = -1
    ) -> JobsSince:
        assert self.token is not None
        same = leader == self.token.session
        now_live = self._live.list.revision
        live = self._live.list.since(live_revision) if same else None
        # A job that is about to leave may be told as live and as ended: the live one counts.
        ended = self._ended.since(revision) if same else None
        return JobsSince(
            leader=self.token.session,
            revision=self._ended.revision,
            live=tuple(self._live.list.summaries() if live is None else live[0]),
            ended=tuple(self._ended.summaries() if ended is None else ended[0]),
            removed=tuple(() if ended is None else ended[1]),
            whole=ended is None,
            live_revision=now_live,
            live_gone=tuple(() if live is None else live[1]),
            live_whole=live is None,
        )

    def job_status(self, job_id: JobId) -> JobStatus:
        if (job := self._live.get(job_id)) is not None:
            return job.status
        return self._result(job_id).status

    async def job_details(self, job_id: JobId) -> JobDetails:
        if (job := self._live.get(job_id)) is not None:
            return await self._with_reason(job.details())
        result = self._result(job_id)
        try:
            return await self._stores.results.details(job_id)
        except NotFound:
            log.warning("the details of job %s are lost; its result is all there is", job_id)
            return _details_from(result)

    async def _with_reason(self, details: JobDetails) -> JobDetails:
        """Why it waits, as things stand now: its own master asks only from time to time."""
        if details.waiting is None:
            return details
        try:
            manager = await self._resource_manager()
            if self._queues.why_waiting(details.job_id) is None:
                reason = await manager.wait_reason(details.job_id)
                words = reason.text if reason else None
            else:
                free = (await manager.overview()).slots_free
                needed = self._queues.slots_wanted(details.job_id)
                slots = "1 slot" if needed == 1 else f"{needed} slots"
                words = f"needs {slots}, {free} free; {details.waiting}"
        except StokerError:
            return details
        return msgspec.structs.replace(details, waiting=words)

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        details = await self.job_details(job_id)
        return await self._logs.read(details, attempt, stream, offset)

    def job_result(self, job_id: JobId) -> JobResult | None:
        if self._live.get(job_id) is not None:
            return None
        return self._result(job_id)

    def _result(self, job_id: JobId) -> JobResult:
        result = self._ended.get(job_id)
        if result is None:
            self._quarantine.check(job_id)
            raise JobNotFound(job_id)
        return result

    async def wait_for_change(
        self, job_id: JobId, known: tuple[JobStatus, ...], seconds: float
    ) -> JobStatus:
        try:
            async with asyncio.timeout(seconds):
                while (status := self.job_status(job_id)) in known:
                    await self._live.next_change(job_id)
                return status
        except TimeoutError:
            return self.job_status(job_id)

    # Cancelling

    async def cancel_job(self, job_id: JobId) -> None:
        if await self._quarantine.cancel(job_id):
            return
        job = self._live.get(job_id)
        if job is None or job.status.globally_terminal:
            self._check_cancelled(job_id)
            return
        try:
            await self._stores.cancellations.cancel(job_id, at=self._services.wall_clock())
        except JobNotFound:
            # It ended while this was under way, and its record has gone.
            self._check_cancelled(job_id)
            return
        job.cancel()

    def _check_cancelled(self, job_id: JobId) -> None:
        status = self.job_status(job_id)
        if status is not JobStatus.CANCELED:
            raise JobAlreadyEnded(job_id, status)

    # Attached clients

    def heartbeat_from_client(self, job_id: JobId, seconds: float) -> None:
        if self._live.get(job_id) is None:
            self.job_status(job_id)
            return
        self.clients.seen(job_id, asyncio.get_running_loop().time() + seconds)

    def bound_to_clients(self) -> dict[JobId, float]:
        """Live jobs that nobody has asked to cancel, with the silence that they bear."""
        jobs = [job for job_id in self._live.ids() if (job := self._live.get(job_id))]
        return {
            job.to_run.graph.job_id: seconds
            for job in jobs
            if (seconds := job.to_run.graph.client_timeout_seconds) and not job.cancel_wanted
        }

    # Savepoints

    def trigger_savepoint(self, job_id: JobId, trigger_id: str, request: SavepointRequest) -> None:
        if self._triggers.knows(job_id, trigger_id):
            self._triggers.trigger(job_id, trigger_id, request, self.cancel_job)
            return
        self._check_takes_savepoints(job_id)
        self._triggers.trigger(job_id, trigger_id, request, self.cancel_job)

    def _check_takes_savepoints(self, job_id: JobId) -> None:
        job = self._live.get(job_id)
        if job is None:
            status = self.job_status(job_id)
            raise CannotTakeSavepoint(
                f"job {job_id} has ended as {status} and takes no savepoint any more"
            )
        if job.to_run.graph.job_type is JobType.BATCH:
            raise CannotTakeSavepoint(
                f"job {job_id} is a batch job and has no state to save; only streaming jobs take "
                "savepoints"
            )
        self._shutdown.check()

    async def savepoint_status(
        self, job_id: JobId, trigger_id: str, seconds: float
    ) -> SavepointStatus:
        return await self._triggers.status(job_id, trigger_id, seconds)

    async def savepoints(self, directory: str | None) -> list[SavepointSummary]:
        services = self._services.savepoints
        wanted = directory or services.options.savepoint_directory
        if wanted is None:
            raise InvalidInput(
                "no directory is named; name one, or set execution.checkpointing.savepoint-dir"
            )
        return await list_savepoints(wanted, services.open_storage)

    async def dispose_savepoint(self, path: str) -> None:
        await dispose(path, self._services.savepoints.open_storage, self._services.storage)

    # Replacements

    async def trigger_replacement(self, request: ReplacementRequest) -> None:
        async with self._locks(request.job_id):
            await self._replacements.trigger(request, self.hands)

    async def replacement_status(
        self, job_id: JobId, trigger_id: str, known: ReplacementPhase | None, seconds: float
    ) -> Replacement:
        return await self._replacements.status(job_id, trigger_id, known, seconds)

    # Quarantine

    def quarantined(self) -> list[QuarantinedJob]:
        return self._quarantine.all()

    async def retry_quarantined(self, job_id: JobId) -> None:
        if self._live.get(job_id) is None:
            await self._quarantine.retry(job_id)

    async def drop_quarantined(self, job_id: JobId) -> None:
        result = self._ended.get(job_id)
        if result is None or not was_dropped(result):
            await self._quarantine.drop(job_id)

    # The cluster

    async def cluster_overview(self) -> ClusterOverview:
        manager = await self._resource_manager()
        resources = await manager.overview()
        return ClusterOverview(
            resources=resources,
            jobs_running=self._live.count(),
            jobs_finished=self._ended.count(JobStatus.FINISHED),
            jobs_cancelled=self._ended.count(JobStatus.CANCELED),
            jobs_failed=self._ended.count(JobStatus.FAILED),
        )

    async def task_executors(self) -> list[TaskExecutorDetails]:
        manager = await self._resource_manager()
        return await manager.task_executors()

    def queues(self) -> list[QueueOverview]:
        return self._queues.overview()

    async def shut_down_cluster(self, status: ApplicationStatus) -> None:
        await self._shutdown.ask(status)

    async def drain_task_executor(self, resource_id: ResourceId, seconds: float | None) -> None:
        manager = await self._resource_manager()
        await manager.drain_task_executor(resource_id, seconds)

    async def _resource_manager(self) -> ResourceManagerGateway:
        leader = self._services.resource_manager.leader
        if leader is None:
            raise NoLeader("no resource manager leads at the moment; try again shortly")
        return await self._services.rpc.connect(
            leader.address, ResourceManagerGateway, token=leader.token
        )


def _details_from(result: JobResult) -> JobDetails:
    return JobDetails(
        job_id=result.job_id,
        name=result.name,
        job_type=result.job_type,
        status=result.status,
        timestamps={JobStatus.INITIALIZING: result.start, result.status: result.end},
        start=result.start,
        end=result.end,
    )
