"""When a job master lives: while its process leads, until its job has ended.

The runner outlives single grants of leadership: it answers for the job from the moment the
dispatcher starts it, also while no master is there yet (JMR-08).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from stoker.aio.latest import Latest
from stoker.aio.log_context import bind_log_fields
from stoker.core.checkpoints import RestoredFrom, SavepointRequest, SavepointTaken
from stoker.core.errors import CannotTakeSavepoint, InvalidOption, StokerError
from stoker.core.graph import JobGraph, RestartPolicy
from stoker.core.parallelism import with_cluster_overrides
from stoker.core.plan import engine_text, plan_of
from stoker.core.restart_keys import policy_by_keys
from stoker.core.results import Failure, FailureRecord, JobDetails
from stoker.core.states import JobStatus
from stoker.gateways.job import JobEnd, JobToRun, RunningJob
from stoker.gateways.jobmaster import job_component
from stoker.ha.election import LeaderElection
from stoker.ha.leadership import Leadership
from stoker.ha.stores.attempts import AttemptRecord, AttemptStore
from stoker.ha.stores.outcomes import OutcomeStore
from stoker.jobmaster.attempts import FormerAttempt, SlotHandle
from stoker.jobmaster.endpoint import JobMaster
from stoker.jobmaster.execution_graph import ExecutionGraph
from stoker.jobmaster.job import JobMasterServices, LiveJob
from stoker.jobmaster.losses import await_former
from stoker.jobmaster.options import FailoverStrategy, JobMasterOptions
from stoker.jobmaster.outputs import DecidedOutputs
from stoker.jobmaster.resource_manager_link import fail_when_starved, keep_registered, take_leave
from stoker.jobmaster.savepoints.operations import JobSavepoints
from stoker.jobmaster.savepoints.origins import begin_from, retain
from stoker.jobmaster.savepoints.records import (
    SavepointsRecord,
    StopRecord,
    savepoints_before,
    stopped_before,
)
from stoker.jobmaster.savepoints.stopping import streaming_runs
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

FAREWELL_SECONDS = 2.0


class JobMasterRunner:
    def __init__(
        self,
        to_run: JobToRun,
        services: JobMasterServices,
        *,
        storage: Storage,
    ) -> None:
        self._to_run = to_run
        self._services = services
        self._storage = storage
        self._outcomes = OutcomeStore(storage)
        self._decided = DecidedOutputs(storage, to_run.graph)
        self._status = Latest(JobStatus.INITIALIZING)
        self._job: LiveJob | None = None
        self._tell_change: Callable[[], None] = lambda: None
        self._savepoints: JobSavepoints | None = None
        self._cancel_wanted = to_run.cancel_wanted
        self._end: asyncio.Future[JobEnd] = asyncio.get_running_loop().create_future()
        self.left = asyncio.Event()
        """The job has ended, and everyone who holds something for it was told."""

    # What the dispatcher asks

    @property
    def status(self) -> JobStatus:
        if self._job is not None:
            return self._job.graph.status
        return JobStatus.CANCELLING if self._cancel_wanted else JobStatus.INITIALIZING

    def details(self) -> JobDetails:
        if self._job is not None:
            return self._job.details()
        return self._details_without_master(self.status)

    def tell_changes(self, tell: Callable[[], None]) -> None:
        self._tell_change = tell
        if self._job is not None:
            self._job.tell_change = tell

    def _details_without_master(self, status: JobStatus) -> JobDetails:
        graph = self._to_run.graph
        started = self._to_run.submitted_at
        return JobDetails(
            job_id=graph.job_id,
            name=graph.name,
            job_type=graph.job_type,
            status=status,
            timestamps={JobStatus.INITIALIZING: started},
            start=started,
            plan=plan_of(graph),
            configuration=graph.configuration,
            engine=engine_text(graph),
            parameters=graph.parameters,
        )

    async def wait_for_change(self, known: JobStatus) -> JobStatus:
        return await self._status.wait_for_change(known)

    def cancel(self) -> None:
        self._cancel_wanted = True
        if self._job is not None:
            self._job.act(self._job.graph.cancel(self._job.now))
        else:
            self._status.set(self.status)

    async def savepoint(self, request: SavepointRequest) -> SavepointTaken:
        if self._job is None or self._savepoints is None:
            raise CannotTakeSavepoint(
                f"job {self._to_run.graph.job_id} has not begun yet; try again shortly"
            )
        return await self._savepoints.perform(request)

    async def ended(self) -> JobEnd:
        return await asyncio.shield(self._end)

    def master_is_gone(self, contending: "asyncio.Task[None]") -> None:
        """Whoever waits for the end learns that the master broke (JMR-12)."""
        self.left.set()
        if contending.cancelled() or self._end.done():
            return
        error = contending.exception()
        self._end.set_exception(error or RuntimeError("the job master ended without a result"))
        self._end.exception()  # Looked at: when leadership is over, nobody waits for it any more.

    # One grant of leadership

    async def lead(self, leadership: Leadership) -> None:
        if self._end.done():
            return
        bind_log_fields(component="jobmaster", job=self._to_run.graph.job_id)
        attempts = AttemptStore(leadership)
        records = await attempts.of_job(self._to_run.graph.job_id)
        try:
            origin = await self._begin_from()
            job = self._live_job(leadership, attempts)
        except StokerError as error:
            self._end.set_result(self._initialization_failed(error))
            self.left.set()
            return
        former = {record.region: await self._recall(record) for record in records}
        job.graph.failures.recall(await self._recall_failures(records))
        stop, savepoints = await self._recall_savepoints(job, origin)
        master = JobMaster(job)
        try:
            async with job.scope, master.beats, self._services.rpc.running(master) as address:
                self._job = job
                job.tell_change = self._tell_change
                self._savepoints = JobSavepoints(
                    job, self._storage, job.checkpoints, self._services.savepoints
                )
                # Before anyone can find this master: a task executor that came while it did not
                # know the former attempts would be told to cancel them as strangers.
                job.act(job.graph.start(former, cancel_wanted=self._cancel_wanted, now=job.now))
                await leadership.publish(address)
                self._attend(job, records, address)
                if stop is not None:
                    self._savepoints.finish_stopped(stop, savepoints.stop_order)
                elif savepoints.stop_order is not None:
                    self._savepoints.let_go_on(savepoints.stop_order)
                end = await job.end
                services = self._services.savepoints
                end = await retain(end, self._to_run.graph, self._storage, services)
                self._end.set_result(end)
                await _say_farewell(job)
                self.left.set()
        finally:
            job.graph.suspend(job.now)
            if not self._end.done():
                self._job = None
                self._status.set(self.status)
                self._tell_change()

    async def _begin_from(self) -> RestoredFrom | None:
        if self._cancel_wanted:
            return None
        services = self._services
        return await begin_from(
            self._to_run.graph, self._storage, services.savepoints, services.wall_clock()
        )

    async def _recall_savepoints(
        self, job: LiveJob, origin: RestoredFrom | None
    ) -> tuple[StopRecord | None, SavepointsRecord]:
        if origin is not None:
            job.checkpoints.restored(origin)
        if not streaming_runs(job):
            return None, SavepointsRecord()
        stop = await stopped_before(self._storage, job.job_id)
        job.stopped = stop is not None
        savepoints = await savepoints_before(self._storage, job.job_id)
        job.checkpoints.savepoints_begun = savepoints.begun
        if stop is not None:
            job.checkpoints.stopped_before(stop.path, stop.at)
        return stop, savepoints

    def _live_job(self, leadership: Leadership, attempts: AttemptStore) -> LiveJob:
        graph = self._to_run.graph
        options = self._services.options
        execution = ExecutionGraph(
            _with_overrides(graph, options),
            ids=self._services.ids,
            policy=policy_of(graph, options),
            submitted_at=self._to_run.submitted_at,
            now=self._services.wall_clock(),
            failures_kept=options.exception_history_size,
            attempts_kept=options.attempts_history_size,
            full_fail_over=options.failover_strategy is FailoverStrategy.FULL,
        )
        return LiveJob(
            self._services,
            execution,
            leadership=leadership,
            attempts=attempts,
            outcomes=self._outcomes,
            decided=self._decided,
            status=self._status,
        )

    async def _recall(self, record: AttemptRecord) -> FormerAttempt:
        outcome = await self._outcomes.read(record.job_id, record.region, record.attempt)
        return FormerAttempt(
            attempt=record.attempt,
            number=record.number,
            slot=SlotHandle(
                allocation=record.allocation,
                resource_id=record.task_executor,
                instance=record.instance,
            ),
            outcome=outcome,
            interrupted=outcome is not None
            and await self._decided.interrupted(record.region, outcome.failure),
        )

    async def _recall_failures(self, records: list[AttemptRecord]) -> list[FailureRecord]:
        """From the outcomes of earlier attempts; the last of each region is heard of anyway."""
        current = {record.attempt for record in records}
        outcomes = [
            outcome
            for record in records
            for outcome in await self._outcomes.of_region(record.job_id, record.region)
        ]
        return [
            FailureRecord(
                failure=self._services.enrichers.at_once(outcome.failure),
                at=outcome.at,
                region=outcome.region,
                attempt=outcome.attempt,
                attempt_number=outcome.number or 0,
                task_executor=outcome.task_executor,
            )
            for outcome in outcomes
            if outcome.failure is not None and outcome.attempt not in current
        ]

    def _attend(self, job: LiveJob, records: list[AttemptRecord], address: str) -> None:
        job.scope.spawn("resource manager", keep_registered(job, address))
        job.scope.spawn("starvation", fail_when_starved(job))
        for record in records:
            job.scope.spawn(f"reconcile {record.attempt}", await_former(job, record))

    def _initialization_failed(self, error: StokerError) -> JobEnd:
        """The job never began; it ends FAILED with that cause (DISP-09, JMR-06)."""
        failure = Failure(error=type(error).__name__, message=str(error), retriable=False)
        now = self._services.wall_clock()
        details = self._details_without_master(JobStatus.FAILED)
        self._status.set(JobStatus.FAILED)
        return JobEnd(
            details=JobDetails(
                job_id=details.job_id,
                name=details.name,
                job_type=details.job_type,
                status=JobStatus.FAILED,
                timestamps={**details.timestamps, JobStatus.FAILED: now},
                start=details.start,
                end=now,
                failures=(FailureRecord(failure=failure, at=now),),
                plan=details.plan,
            ),
            failure=failure,
        )


def policy_of(graph: JobGraph, options: JobMasterOptions) -> RestartPolicy:
    """The job's own, in its graph or by keys of its configuration, or the cluster's (FAIL-06)."""
    try:
        by_keys = policy_by_keys(graph.configuration)
    except ValueError as error:
        raise InvalidOption(str(error)) from error
    return graph.restart or by_keys or options.policy_for(graph.job_type)


def _with_overrides(graph: JobGraph, options: JobMasterOptions) -> JobGraph:
    configuration = with_cluster_overrides(graph.configuration, options.parallelism_overrides)
    return msgspec.structs.replace(graph, configuration=configuration)


async def _say_farewell(job: LiveJob) -> None:
    job.farewell("leave", take_leave(job))
    if job.farewells:
        await asyncio.wait(job.farewells, timeout=FAREWELL_SECONDS)


@asynccontextmanager
async def running_job(
    to_run: JobToRun,
    services: JobMasterServices,
    *,
    election: LeaderElection,
    storage: Storage,
) -> AsyncIterator[RunningJob]:
    runner = JobMasterRunner(to_run, services, storage=storage)
    component = job_component(to_run.graph.job_id)
    contending = asyncio.create_task(
        election.contend(component, runner.lead), name=f"contend {component}"
    )
    contending.add_done_callback(runner.master_is_gone)
    try:
        yield runner
        await runner.left.wait()
    finally:
        contending.cancel()
        await asyncio.gather(contending, return_exceptions=True)
