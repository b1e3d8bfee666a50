"""The lifetime of a job master: it exists while its process leads, until its job has ended.

The dispatcher needs an answer about the job from the moment it starts it, and leadership may come
later or be lost in between. The runner therefore outlives single grants of leadership; under each
grant it makes a new driver and a new endpoint.

The order at the start of a grant matters. What previous leaders left (attempts, outcomes, failures,
savepoints) is read first and the execution graph starts with it. Only then is the address
published: a master without this knowledge would have the attempts of a task executor
cancelled as unknown.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from stoker.aio.latest import Latest
from stoker.aio.log_context import bind_log_fields
from stoker.core.checkpoints import RestoredFrom, SavepointRequest, SavepointTaken
from stoker.core.description import engine_text, plan_of
from stoker.core.errors import (
    CannotResume,
    CannotTakeSavepoint,
    CorruptContent,
    Fenced,
    InvalidOption,
    SessionExpired,
    StokerError,
)
from stoker.core.graph import JobGraph, RestartPolicy
from stoker.core.job_options import policy_by_keys, with_cluster_overrides
from stoker.core.results import Failure, FailureRecord, JobDetails
from stoker.core.states import JobStatus
from stoker.gateways.job import JobEnd, JobToRun, RunningJob
from stoker.gateways.jobmaster import job_component
from stoker.ha.election import LeaderElection
from stoker.ha.leadership import Leadership
from stoker.ha.stores.attempts import AttemptRecord, AttemptStore
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.jobmaster.attempts import PreviousAttempt, SlotHandle
from stoker.jobmaster.endpoint import JobMaster
from stoker.jobmaster.execution_graph import ExecutionGraph
from stoker.jobmaster.job import JobDriver, JobMasterServices
from stoker.jobmaster.losses import await_previous_attempt
from stoker.jobmaster.options import FailoverStrategy, JobMasterOptions
from stoker.jobmaster.outputs import DecidedOutputs
from stoker.jobmaster.resource_manager_link import deregister, fail_when_starved, keep_registered
from stoker.jobmaster.savepoints.operations import JobSavepoints
from stoker.jobmaster.savepoints.origins import (
    presumed_origin,
    recorded_origin,
    restore_origin,
    retain_checkpoint,
)
from stoker.jobmaster.savepoints.records import (
    SavepointsRecord,
    StopRecord,
    read_savepoints,
    read_stop,
)
from stoker.jobmaster.savepoints.stopping import streaming_regions
from stoker.metrics.registry import MetricGroup
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

EXIT_SECONDS = 2.0


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
        self._job: JobDriver | None = None
        self._notify_change: Callable[[], None] = lambda: None
        self._savepoints: JobSavepoints | None = None
        self._cancel_wanted = to_run.cancel_wanted
        self._end: asyncio.Future[JobEnd] = asyncio.get_running_loop().create_future()
        self.deregistered = asyncio.Event()
        """Set when the job has ended and task executors and resource manager were notified."""

    @property
    def status(self) -> JobStatus:
        if self._job is not None:
            return self._job.graph.status
        return JobStatus.CANCELLING if self._cancel_wanted else JobStatus.INITIALIZING

    def details(self) -> JobDetails:
        if self._job is not None:
            return self._job.details()
        return self._details_without_master(self.status)

    def set_change_listener(self, tell: Callable[[], None]) -> None:
        self._notify_change = tell
        if self._job is not None:
            self._job.notify_change = tell

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
            owner=self._to_run.owner,
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
                f"job {self._to_run.graph.job_id} has not started yet; try again shortly"
            )
        return await self._savepoints.perform(request)

    async def wait_for_end(self) -> JobEnd:
        return await asyncio.shield(self._end)

    def on_leading_ended(self, leading: "asyncio.Task[None]") -> None:
        """Raise the error of a broken job master in every caller that waits for the end."""
        self.deregistered.set()
        if leading.cancelled() or self._end.done():
            return
        error = leading.exception()
        self._end.set_exception(error or RuntimeError("the job master ended without a result"))
        # Marks the exception as retrieved: after a loss of leadership no caller waits for it.
        self._end.exception()

    async def lead(self, leadership: Leadership) -> None:
        if self._end.done():
            return
        graph = self._to_run.graph
        bind_log_fields(component="jobmaster", job=graph.job_id)
        with self._services.metrics.group(job_id=graph.job_id, job_name=graph.name) as metrics:
            await self._lead(leadership, metrics)

    async def _lead(self, leadership: Leadership, metrics: MetricGroup) -> None:
        attempts = AttemptStore(leadership)
        records = await attempts.of_job(self._to_run.graph.job_id)
        # An error here must not fail the job: the clean-up of a failed job would delete the
        # checkpoints that it has made since its start.
        origin = await self._recorded_origin()
        try:
            origin = origin or await self._restore_origin(has_run=bool(records))
            job = self._new_driver(leadership, attempts, metrics)
        except StokerError as error:
            if self._to_run.recovered or records:
                raise _failed_resumption(error) from error
            self._end.set_result(self._end_of_failed_start(error))
            self.deregistered.set()
            return
        previous = {record.region: await self._load_previous(record) for record in records}
        job.graph.failures.recall(await self._load_failures(records))
        stop, savepoints = await self._load_savepoints(job, origin)
        master = JobMaster(job)
        try:
            async with job.scope, master.beats, self._services.rpc.running(master) as address:
                self._job = job
                job.notify_change = self._notify_change
                self._savepoints = JobSavepoints(job, self._storage)
                # Before the address is published; otherwise this master would cancel the attempts
                # of task executors as unknown.
                job.act(job.graph.start(previous, cancel_wanted=self._cancel_wanted, now=job.now))
                await leadership.publish(address)
                self._start_background_tasks(job, records, address)
                if stop is not None:
                    self._savepoints.finish_stopped(stop, savepoints.stop_order)
                elif savepoints.stop_order is not None:
                    self._savepoints.resume_suspended(savepoints.stop_order)
                end = await job.end
                services = self._services.savepoints
                end = await retain_checkpoint(end, self._to_run.graph, self._storage, services)
                self._end.set_result(end)
                await _finish_exit_tasks(job)
                self.deregistered.set()
        finally:
            job.graph.suspend(job.now)
            if not self._end.done():
                self._job = None
                self._status.set(self.status)
                self._notify_change()

    async def _recorded_origin(self) -> RestoredFrom | None:
        if self._cancel_wanted:
            return None
        return await recorded_origin(self._to_run.graph, self._storage)

    async def _restore_origin(self, *, has_run: bool) -> RestoredFrom | None:
        if self._cancel_wanted:
            return None
        graph, services = self._to_run.graph, self._services
        if has_run:
            return presumed_origin(graph, self._to_run.submitted_at)
        return await restore_origin(
            graph, self._storage, services.savepoints, services.wall_clock()
        )

    async def _load_savepoints(
        self, job: JobDriver, origin: RestoredFrom | None
    ) -> tuple[StopRecord | None, SavepointsRecord]:
        if origin is not None:
            job.checkpoints.restored(origin)
        if not streaming_regions(job):
            return None, SavepointsRecord()
        stop = await read_stop(self._storage, job.job_id)
        job.stopped = stop is not None
        savepoints = await read_savepoints(self._storage, job.job_id)
        job.checkpoints.savepoints_started = savepoints.begun
        if stop is not None:
            job.checkpoints.add_previous_stop(stop.path, stop.at)
        return stop, savepoints

    def _new_driver(
        self, leadership: Leadership, attempts: AttemptStore, metrics: MetricGroup
    ) -> JobDriver:
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
            owner=self._to_run.owner,
        )
        return JobDriver(
            self._services,
            execution,
            leadership=leadership,
            attempts=attempts,
            outcomes=self._outcomes,
            decided=self._decided,
            status=self._status,
            metrics=metrics,
        )

    async def _load_previous(self, record: AttemptRecord) -> PreviousAttempt:
        outcome = await self._outcomes.read(record.job_id, record.region, record.attempt)
        return PreviousAttempt(
            attempt=record.attempt,
            number=record.number,
            slot=SlotHandle(
                allocation=record.allocation,
                resource_id=record.task_executor,
                instance=record.instance,
            ),
            outcome=outcome,
            interrupted=outcome is not None
            and await self._decided.was_interrupted(record.region, outcome.failure),
        )

    async def _load_failures(self, records: list[AttemptRecord]) -> list[FailureRecord]:
        """Failures of earlier attempts; the last attempt of each region is reconciled anyway."""
        current = {record.attempt for record in records}
        outcomes = [
            outcome
            for record in records
            for outcome in await self._outcomes.of_region(record.job_id, record.region)
        ]
        return [
            FailureRecord(
                failure=self._services.enrichers.label_now(outcome.failure),
                at=outcome.at,
                region=outcome.region,
                attempt=outcome.attempt,
                attempt_number=outcome.number or 0,
                task_executor=outcome.task_executor,
            )
            for outcome in outcomes
            if outcome.failure is not None and outcome.attempt not in current
        ]

    def _start_background_tasks(
        self, job: JobDriver, records: list[AttemptRecord], address: str
    ) -> None:
        job.scope.spawn("resource manager", keep_registered(job, address))
        job.scope.spawn("starvation", fail_when_starved(job))
        for record in records:
            job.scope.spawn(f"reconcile {record.attempt}", await_previous_attempt(job, record))

    def _end_of_failed_start(self, error: StokerError) -> JobEnd:
        """End of a job that could not start: FAILED with this cause."""
        failure = Failure(error=type(error).__name__, message=str(error), retriable=False)
        now = self._services.wall_clock()
        details = self._details_without_master(JobStatus.FAILED)
        self._status.set(JobStatus.FAILED)
        return JobEnd(
            details=msgspec.structs.replace(
                details,
                timestamps={**details.timestamps, JobStatus.FAILED: now},
                end=now,
                failures=(FailureRecord(failure=failure, at=now),),
            ),
            failure=failure,
        )


def policy_of(graph: JobGraph, options: JobMasterOptions) -> RestartPolicy:
    """Restart policy: from the graph, else from the job's configuration, else the cluster's."""
    try:
        by_keys = policy_by_keys(graph.configuration)
    except ValueError as error:
        raise InvalidOption(str(error)) from error
    return graph.restart or by_keys or options.policy_for(graph.job_type)


def _failed_resumption(error: StokerError) -> StokerError:
    """The error with which the start of a job fails that a leader has taken over.

    It never ends the job: the clean-up would delete the state that the job has made. After an error
    that a retry can overcome the dispatcher starts another job master, after `CannotResume` and
    `CorruptContent` the job goes to quarantine.
    """
    if error.retriable or isinstance(error, Fenced | SessionExpired | CorruptContent):
        return error
    return CannotResume(f"the job cannot be started again: {error}")


def _with_overrides(graph: JobGraph, options: JobMasterOptions) -> JobGraph:
    configuration = with_cluster_overrides(graph.configuration, options.parallelism_overrides)
    return msgspec.structs.replace(graph, configuration=configuration)


async def _finish_exit_tasks(job: JobDriver) -> None:
    job.spawn_exit_task("deregister", deregister(job))
    if job.exit_tasks:
        await asyncio.wait(job.exit_tasks, timeout=EXIT_SECONDS)


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
    leading = asyncio.create_task(
        election.run_while_leading(component, runner.lead), name=f"lead {component}"
    )
    leading.add_done_callback(runner.on_leading_ended)
    try:
        yield runner
        await runner.deregistered.wait()
    finally:
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
