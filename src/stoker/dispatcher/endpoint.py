"""The calls that the leading dispatcher answers.

A submission is on record before it is acknowledged and before the job starts. The first record of
a job decides whether another submission of it is a repetition or a conflict, so a client
may submit to any leader, any number of times.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from typing import assert_never

import msgspec

from stoker.core.checkpoints import SavepointRequest, SavepointSummary
from stoker.core.checks.validation import validate
from stoker.core.errors import (
    CannotTakeSavepoint,
    DuplicateJob,
    Fenced,
    InvalidInput,
    JobAlreadyEnded,
    JobNotFound,
    NoLeader,
    NotFound,
    StokerError,
    StorageFull,
)
from stoker.core.graph import JobGraph, JobType
from stoker.core.headlines import headline_of
from stoker.core.ids import AttemptId, BlobKey, JobId, ResourceId, SessionId
from stoker.core.replacements import Replacement, ReplacementPhase, ReplacementRequest
from stoker.core.results import JobDetails, JobResult, slots_held
from stoker.core.states import ApplicationStatus, JobStatus
from stoker.core.values import FencingToken, Millis
from stoker.dispatcher.attached_clients import AttachedClients
from stoker.dispatcher.attempt_logs import AttemptLogReader
from stoker.dispatcher.jobs import LiveJobs
from stoker.dispatcher.quarantine import was_dropped
from stoker.dispatcher.query_rows import read_rows
from stoker.dispatcher.replacements.registry import Replacements
from stoker.dispatcher.savepoints import SavepointTriggers
from stoker.dispatcher.services import DispatcherServices
from stoker.dispatcher.shutdown.run import ClusterShutdown
from stoker.dispatcher.stores import Stores
from stoker.dispatcher.submissions import Submissions, find_forbidden
from stoker.events.event import EventKind
from stoker.events.log import EventLog
from stoker.events.query import EventPage, EventQuery
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.gateways.dispatcher import (
    DISPATCHER,
    CallerRights,
    ClusterOverview,
    DispatcherGateway,
    JobsSince,
    QuarantinedJob,
    QueueOverview,
    RowsPiece,
    SavepointStatus,
    Submitted,
)
from stoker.gateways.job import JobToRun
from stoker.gateways.resourcemanager import ResourceManagerGateway, TaskExecutorDetails
from stoker.ha.stores.job_graphs import AlreadyAccepted, IdInUse, PutOutcome, Stored
from stoker.metrics.catalogue import SUBMISSIONS
from stoker.rpc.service import Endpoint
from stoker.savepoints.access import ALL_SAVEPOINTS, SavepointAccess
from stoker.savepoints.catalog import dispose, list_savepoints
from stoker.savepoints.predecessors import continue_output
from stoker.savepoints.restore import check_savepoint_of
from stoker.savepoints.retained import list_retained
from stoker.security.redaction import without_credentials

log = logging.getLogger(__name__)


class Dispatcher(Endpoint):
    gateway = DispatcherGateway

    def __init__(
        self,
        services: DispatcherServices,
        *,
        stores: Stores,
        jobs: LiveJobs,
        triggers: SavepointTriggers,
        replacements: Replacements,
        shutdown: ClusterShutdown,
        submissions: Submissions,
        events: EventLog,
        token: FencingToken,
    ) -> None:
        super().__init__(DISPATCHER, token=token)
        self._services = services
        self._stores = stores
        self._jobs = jobs
        self.clients = AttachedClients()
        self._triggers = triggers
        self._replacements = replacements
        self._shutdown = shutdown
        self._submissions = submissions
        self._outcomes = services.metrics.counter(SUBMISSIONS)
        self._events = events
        self._logs = AttemptLogReader(services.rpc, services.storage, self.task_executors)

    async def submit_job(
        self, graph: JobGraph, owner: str = "", rights: CallerRights | None = None
    ) -> Submitted:
        try:
            async with self._deleting_files_if_refused(graph):
                validate(graph, max_bytes=self._services.options.max_graph_size)
                with self._shutdown.counting_submission():
                    submitted = await self._accept(graph, owner, rights or CallerRights())
        except StokerError as error:
            self._outcomes.increment("refused", type(error).__name__)
            raise
        self._outcomes.increment("repeated" if submitted.repeated else "accepted", "")
        return submitted

    @asynccontextmanager
    async def _deleting_files_if_refused(self, graph: JobGraph) -> AsyncIterator[None]:
        """Delete the files of a refused job at once, unless another job has its id.

        After an error that a retry can overcome the job may have been accepted, so its files stay;
        the sweep deletes files without a job by their age.
        """
        try:
            yield
        except StokerError as error:
            # A full disk gets room again from what was refused.
            is_final = not error.retriable or isinstance(error, StorageFull)
            if is_final and not isinstance(error, Fenced):
                await self._delete_files_of_unknown(graph)
            raise

    async def _delete_files_of_unknown(self, graph: JobGraph) -> None:
        if not graph.artifacts or graph.job_id in self._replacements.pending_job_ids():
            return
        try:
            async with self._stores.locks(graph.job_id):
                if not await self._stores.graphs.is_known(graph.job_id):
                    await self._services.blobs.delete_job(graph.job_id)
        except StokerError as error:
            log.info("the files of job %s are left for the sweep: %s", graph.job_id, error)

    async def _accept(self, graph: JobGraph, owner: str, rights: CallerRights) -> Submitted:
        now = self._services.wall_clock()
        async with AsyncExitStack() as stack:
            # The lock keeps the sweep from removing files of the job before its record exists.
            await stack.enter_async_context(self._stores.locks(graph.job_id))
            outcome: PutOutcome | None = await self._stores.graphs.known(graph, owner=owner)
            if outcome is None:
                self._shutdown.check()
                stack.enter_context(self._counting(graph, owner, rights, now))
                self._jobs.queues.check(graph)
                stack.enter_context(self._jobs.outputs.reserve(graph))
                graph = await self._check_new(graph, rights)
                outcome = await self._stores.graphs.add(graph, submitted_at=now, owner=owner)
            if isinstance(outcome, Stored):
                log.info("job %s (%s) accepted", graph.job_id, graph.name)
                self._submissions.note_accepted(owner, now)
                to_run = JobToRun(graph=graph, submitted_at=now, owner=owner)
                self._jobs.events.submitted(to_run)
                self._jobs.start(to_run)
        match outcome:
            case AlreadyAccepted(job_id=job_id):
                if job_id != graph.job_id:
                    await self._delete_files_of_unknown(graph)
                return Submitted(job_id=job_id, repeated=True)
            case IdInUse(job_id=job_id, ended=ended):
                raise DuplicateJob(
                    job_id, globally_terminated=ended, detail="with another job graph"
                )
            case Stored():
                return Submitted(job_id=graph.job_id, continues_from=_chosen_origin(graph))
            case _:
                assert_never(outcome)

    def _counting(
        self, graph: JobGraph, owner: str, rights: CallerRights, now: Millis
    ) -> AbstractContextManager[None]:
        def unfinished() -> int:
            return self._jobs.count_unfinished(owner)

        return self._submissions.counting(graph, owner, rights, unfinished=unfinished, now=now)

    async def _check_new(self, graph: JobGraph, rights: CallerRights) -> JobGraph:
        """Check what the job needs, before its record, so that a refused job leaves no record.

        Returns the graph with the origin from which the job starts.
        """
        services, access = self._services, self._savepoint_access(rights)
        await self.check_artifacts(graph)
        await services.blobs.check_room()
        if graph.restore is None:
            return await continue_output(graph, services.storage, services.savepoints, access)
        await check_savepoint_of(graph, services.savepoints.open_storage, access)
        return graph

    def _savepoint_access(self, rights: CallerRights | None) -> SavepointAccess:
        if rights is None or not rights.only_own:
            return ALL_SAVEPOINTS
        options = self._services.savepoints.options
        return SavepointAccess(owner=rights.name, without_owner=options.use_without_owner)

    async def check_artifacts(self, graph: JobGraph) -> None:
        """Raise InvalidInput when a file that the graph names was not uploaded."""
        keys = [artifact.key or BlobKey(artifact.sha256) for artifact in graph.artifacts]
        missing = await self._services.blobs.missing(graph.job_id, keys) if keys else ()
        if missing:
            names = [a.name for a in graph.artifacts if (a.key or a.sha256) in missing]
            raise InvalidInput(
                f"the job names files that were not uploaded: {', '.join(names)}; submit it again "
                "together with them",
                missing=names,
            )

    def jobs_since(
        self, leader: SessionId | None, revision: int, live_revision: int = -1
    ) -> JobsSince:
        assert self.token is not None
        is_same_leader = leader == self.token.session
        live_revision_now = self._jobs.index.revision
        live = self._jobs.index.since(live_revision) if is_same_leader else None
        # An id that is used again while its old result is pruned is in both lists for a moment; the
        # live entry counts.
        ended = self._jobs.ended.since(revision) if is_same_leader else None
        return JobsSince(
            leader=self.token.session,
            revision=self._jobs.ended.revision,
            live=tuple(self._jobs.index.summaries() if live is None else live[0]),
            ended=tuple(self._jobs.ended.summaries() if ended is None else ended[0]),
            removed=tuple(() if ended is None else ended[1]),
            whole=ended is None,
            live_revision=live_revision_now,
            live_gone=tuple(() if live is None else live[1]),
            live_whole=live is None,
        )

    def job_status(self, job_id: JobId) -> JobStatus:
        if (job := self._jobs.get(job_id)) is not None:
            return job.status
        return self._result(job_id).status

    async def job_details(self, job_id: JobId) -> JobDetails:
        if (job := self._jobs.get(job_id)) is not None:
            return await self._with_wait_reason(job.details())
        result = self._result(job_id)
        try:
            return await self._stores.results.details(job_id)
        except NotFound:
            log.warning("the details of job %s are lost; only its result is left", job_id)
            return _details_from(result)

    async def _with_wait_reason(self, details: JobDetails) -> JobDetails:
        """Add the current reason for waiting; the job master itself asks only from time to time."""
        if details.waiting is None:
            return details
        try:
            manager = await self._resource_manager()
            if self._jobs.queues.why_waiting(details.job_id) is None:
                wait_reason = await manager.wait_reason(details.job_id)
                reason = wait_reason.text if wait_reason else None
            else:
                free = (await manager.overview()).slots_free
                needed = self._jobs.queues.slots_wanted(details.job_id)
                slots = "1 slot" if needed == 1 else f"{needed} slots"
                reason = f"needs {slots}, {free} free; {details.waiting}"
        except StokerError:
            return details
        return msgspec.structs.replace(details, waiting=reason)

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        details = await self.job_details(job_id)
        return await self._logs.read(details, attempt, stream, offset)

    async def read_events(self, query: EventQuery) -> EventPage:
        return await self._events.read(query)

    async def read_rows(self, job_id: JobId, query: int | None, offset: int) -> RowsPiece:
        details = await self.job_details(job_id)
        return await read_rows(self._services.storage, details, query, offset)

    def job_owner(self, job_id: JobId) -> str:
        if (job := self._jobs.get(job_id)) is not None:
            return job.to_run.owner
        return self._jobs.quarantine.owner(job_id) or self._result(job_id).owner

    def job_result(self, job_id: JobId) -> JobResult | None:
        if self._jobs.get(job_id) is not None:
            return None
        return self._result(job_id)

    def _result(self, job_id: JobId) -> JobResult:
        result = self._jobs.ended.get(job_id)
        if result is None:
            self._jobs.quarantine.check_absent(job_id)
            raise JobNotFound(job_id)
        return result

    async def wait_for_change(
        self, job_id: JobId, known: tuple[JobStatus, ...], seconds: float
    ) -> JobStatus:
        try:
            async with asyncio.timeout(seconds):
                while (status := self.job_status(job_id)) in known:
                    await self._jobs.next_change(job_id)
                return status
        except TimeoutError:
            return self.job_status(job_id)

    async def cancel_job(self, job_id: JobId) -> None:
        if await self._jobs.quarantine.cancel(job_id):
            return
        job = self._jobs.get(job_id)
        if job is None or job.status.globally_terminal:
            self._check_cancelled(job_id)
            return
        try:
            await self._stores.cancellations.cancel(job_id, at=self._services.wall_clock())
        except JobNotFound:
            # The job ended meanwhile, and its record is gone.
            self._check_cancelled(job_id)
            return
        # The job may have gone to quarantine meanwhile, or have come back from there.
        if (live := self._jobs.get(job_id)) is not None:
            live.cancel()
        else:
            await self._jobs.quarantine.cancel(job_id)

    def _check_cancelled(self, job_id: JobId) -> None:
        status = self.job_status(job_id)
        if status is not JobStatus.CANCELED:
            raise JobAlreadyEnded(job_id, status)

    def heartbeat_from_client(self, job_id: JobId, seconds: float) -> None:
        if self._jobs.get(job_id) is None:
            self.job_status(job_id)
            return
        self.clients.heartbeat(job_id, asyncio.get_running_loop().time() + seconds)

    def attached_jobs(self) -> dict[JobId, float]:
        """Live attached jobs that are not cancelled, with their client timeouts in seconds."""
        jobs = [job for job_id in self._jobs.ids() if (job := self._jobs.get(job_id))]
        return {
            job.to_run.graph.job_id: seconds
            for job in jobs
            if (seconds := job.to_run.graph.client_timeout_seconds) and not job.cancel_wanted
        }

    def trigger_savepoint(self, job_id: JobId, trigger_id: str, request: SavepointRequest) -> None:
        # A repeated trigger is answered even when the job takes no savepoint any more.
        if not self._triggers.has(job_id, trigger_id):
            self.check_takes_savepoints(job_id)
        self._triggers.trigger(job_id, trigger_id, request, self.cancel_job)

    def check_takes_savepoints(self, job_id: JobId) -> None:
        """Raise the reason why the job can take no savepoint, or why nothing new may begin."""
        job = self._jobs.get(job_id)
        if job is None:
            status = self.job_status(job_id)
            result = self._jobs.ended.get(job_id)
            reason = f": {headline_of(result.failure)}" if result and result.failure else ""
            raise CannotTakeSavepoint(
                f"job {job_id} has ended as {status} and takes no savepoint any more{reason}"
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
        wanted = services.options.directory_for(directory)
        return await list_savepoints(wanted, services.open_storage)

    async def retained_checkpoints(self) -> list[SavepointSummary]:
        return await list_retained(self._services.storage, self._services.savepoints)

    async def dispose_savepoint(self, path: str, rights: CallerRights | None = None) -> None:
        access = self._savepoint_access(rights)
        open_storage = self._services.savepoints.open_storage
        await dispose(path, open_storage, self._services.storage, access)
        self._events.record(
            EventKind.SAVEPOINT_DISPOSED, f"savepoint {without_credentials(path)} was disposed"
        )

    async def trigger_replacement(
        self, request: ReplacementRequest, rights: CallerRights | None = None
    ) -> None:
        async with AsyncExitStack() as stack:
            if request.graph is not None:
                await stack.enter_async_context(self._deleting_files_if_refused(request.graph))
                _check_allowed(request.graph, rights)
            await stack.enter_async_context(self._stores.locks(request.job_id))
            await self._replacements.trigger(request, self)

    async def replacement_status(
        self, job_id: JobId, trigger_id: str, known: ReplacementPhase | None, seconds: float
    ) -> Replacement:
        return await self._replacements.status(job_id, trigger_id, known, seconds)

    def quarantined(self) -> list[QuarantinedJob]:
        return self._jobs.quarantine.all()

    async def retry_quarantined(self, job_id: JobId) -> None:
        if self._jobs.get(job_id) is None:
            await self._jobs.quarantine.retry(job_id)

    async def drop_quarantined(self, job_id: JobId) -> None:
        result = self._jobs.ended.get(job_id)
        if result is None or not was_dropped(result):
            await self._jobs.quarantine.drop(job_id)

    async def cluster_overview(self) -> ClusterOverview:
        manager = await self._resource_manager()
        resources = await manager.overview()
        return ClusterOverview(
            resources=resources,
            jobs_running=self._jobs.count(),
            jobs_finished=self._jobs.ended.count(JobStatus.FINISHED),
            jobs_cancelled=self._jobs.ended.count(JobStatus.CANCELED),
            jobs_failed=self._jobs.ended.count(JobStatus.FAILED),
        )

    async def task_executors(self) -> list[TaskExecutorDetails]:
        manager = await self._resource_manager()
        return await manager.task_executors()

    def queues(self) -> list[QueueOverview]:
        held = {job.job_id: slots_held(job) for job in self._jobs.index.summaries()}
        return self._jobs.queues.overview(held)

    async def shut_down_cluster(self, status: ApplicationStatus) -> None:
        await self._shutdown.request(status)

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


def _check_allowed(graph: JobGraph, rights: CallerRights | None) -> None:
    """Raise Forbidden for a queue or a priority that the caller may not use."""
    if rights is None:
        return
    forbidden = find_forbidden(graph, rights)
    if forbidden is not None:
        raise forbidden


def _chosen_origin(graph: JobGraph) -> str | None:
    restore = graph.restore
    return restore.path if restore is not None and restore.by_cluster else None


def _details_from(result: JobResult) -> JobDetails:
    return JobDetails(
        job_id=result.job_id,
        name=result.name,
        job_type=result.job_type,
        status=result.status,
        timestamps={JobStatus.INITIALIZING: result.start, result.status: result.end},
        start=result.start,
        end=result.end,
        owner=result.owner,
    )
