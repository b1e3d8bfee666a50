"""The driver of a job: carries out the commands of its execution graph.

The graph decides in single turns of the event loop and never waits. Durable writes, calls and
delays do wait, and the job may change meanwhile. Each of them is therefore a task in the scope of
the job; it checks again whether it is still wanted, and feeds its result to the graph as an event.

The order of a deployment matters: the launch intent is durable before the task executor is called,
so that a new leader knows of every attempt that may run. An attempt counts as lost only after its
outcome record was looked for.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import msgspec

from stoker.aio.clock import WallClock
from stoker.aio.latest import Latest
from stoker.aio.retry import retry
from stoker.aio.scope import TaskScope
from stoker.core.errors import NotFound, StokerError, StorageUnavailable
from stoker.core.failpoints import failpoint
from stoker.core.ids import AttemptId, Ids, InstanceId, RegionId, ResourceId
from stoker.core.results import (
    AttemptOutcome,
    Failure,
    FailureRecord,
    JobDetails,
)
from stoker.core.states import ExecutionState, JobStatus
from stoker.core.values import Millis
from stoker.gateways.job import JobEnd
from stoker.gateways.leases import LeaseOptions
from stoker.gateways.resourcemanager import ResourceManagerGateway
from stoker.gateways.taskexecutor import MOVED, TaskDeployment
from stoker.ha.leadership import Leadership
from stoker.ha.retrieval import LeaderRetrieval
from stoker.ha.stores.attempts import AttemptRecord, AttemptStore
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.heartbeat.options import HeartbeatOptions
from stoker.jobmaster.attempts import (
    CancelAttempt,
    Command,
    Deploy,
    ReleaseSlots,
    RestartAfter,
    SlotHandle,
)
from stoker.jobmaster.checkpoints import CheckpointHistory
from stoker.jobmaster.enrichers import Enrichers
from stoker.jobmaster.execution_graph import ExecutionGraph
from stoker.jobmaster.executors import ConnectedExecutor, ExecutorConnections, SlotReleases
from stoker.jobmaster.options import JobMasterOptions
from stoker.jobmaster.outputs import BACKOFF, DecidedOutputs, may_be_excused
from stoker.metrics.catalogue import JOB_RESTARTS
from stoker.metrics.registry import MetricGroup, unread_metrics
from stoker.rpc.service import RpcService
from stoker.savepoints.locations import SavepointServices

log = logging.getLogger(__name__)

DEPLOY_RETRY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class JobMasterServices:
    rpc: RpcService
    ids: Ids
    wall_clock: WallClock
    resource_manager: LeaderRetrieval
    heartbeat: HeartbeatOptions = field(default_factory=HeartbeatOptions)
    options: JobMasterOptions = field(default_factory=JobMasterOptions)
    lease: LeaseOptions = field(default_factory=LeaseOptions)
    enrichers: Enrichers = field(default_factory=Enrichers)
    savepoints: SavepointServices = field(default_factory=SavepointServices)
    connections: ExecutorConnections = field(default_factory=ExecutorConnections)
    metrics: MetricGroup = field(default_factory=unread_metrics)


class JobDriver:
    def __init__(
        self,
        services: JobMasterServices,
        graph: ExecutionGraph,
        *,
        leadership: Leadership,
        attempts: AttemptStore,
        outcomes: OutcomeStore,
        decided: DecidedOutputs,
        status: Latest[JobStatus],
        metrics: MetricGroup,
    ) -> None:
        """`metrics`: the group of this job."""
        self.services = services
        self.graph = graph
        self.leadership = leadership
        self.token = leadership.token
        self.attempts = attempts
        self.outcomes = outcomes
        self.decided = decided
        self.job_id = graph.job_id
        self.executors: dict[InstanceId, ConnectedExecutor] = {}
        self.lease_acknowledged: dict[InstanceId, float] = {}
        """Loop time of the last renewal granted; attempts may run for one lease from then."""
        self.resolving: set[AttemptId] = set()
        self._checking_output: set[AttemptId] = set()
        self._labelling: set[AttemptId] = set()
        self.scope = TaskScope(f"job {graph.job_id}")
        self.status = status
        self.notify_change: Callable[[], None] = lambda: None
        self.stopped = False
        """Whether the job was stopped with a savepoint; its attempts have nothing left to run."""
        self.checkpoints = CheckpointHistory(
            [run.region.id for run in graph.runs if run.region.streaming],
            services.savepoints.options.history,
        )
        self.slot_needs: Latest[tuple[int, int]] = Latest((0, 0))
        """Number of slots that the job needs, and number of those that it holds."""
        self.wait_reason: str | None = None
        self._slots_obtainable = False
        """Whether the resource manager answered that the slots exist, free or not."""
        self.starved_since: Latest[float | None] = Latest(None)
        """Loop time since which the job starves and no slot is obtainable; None otherwise."""
        self.resource_manager: ResourceManagerGateway | None = None
        self.exit_tasks: set[asyncio.Task[None]] = set()
        self.slot_releases = SlotReleases(
            self.job_id, self.token, self.executors, self.spawn_exit_task
        )
        self._restarts = metrics.counter(JOB_RESTARTS)
        self.end: asyncio.Future[JobEnd] = asyncio.get_running_loop().create_future()

    @property
    def now(self) -> Millis:
        return self.services.wall_clock()

    def details(self) -> JobDetails:
        details = self.checkpointed(self.graph.details())
        if self.graph.lacks_slots and self.wait_reason:
            return msgspec.structs.replace(details, waiting=self.wait_reason)
        return details

    def checkpointed(self, details: JobDetails) -> JobDetails:
        return msgspec.structs.replace(details, checkpoints=self.checkpoints.view())

    def act(self, commands: Sequence[Command]) -> None:
        """Carry out commands of the graph and publish its new state."""
        for command in commands:
            match command:
                case Deploy():
                    # Before its task gets a turn, because a heartbeat may come in between.
                    if (executor := self.executors.get(command.slot.instance)) is not None:
                        executor.deploying.add(command.attempt)
                    self.scope.spawn(f"deploy {command.attempt}", self._deploy(command))
                case CancelAttempt(attempt, slot):
                    self.scope.spawn(f"cancel {attempt}", self.drive_cancel(attempt, slot))
                case ReleaseSlots(slots):
                    self.slot_releases.release(slots)
                case RestartAfter():
                    self._restarts.increment()
                    self.scope.spawn(f"restart {command.region}", self._restart_later(command))
                case _:
                    assert_never(command)
        self._publish_state()

    def _publish_state(self) -> None:
        graph = self.graph
        self.notify_change()
        if graph.status is not self.status.value:
            log.info("job %s is %s", self.job_id, graph.status)
        self.status.set(graph.status)
        self.slot_needs.set((graph.slots_needed(), graph.slots_held))
        self._update_starvation()
        # The result waits for labels of plug-ins, which have a time limit.
        if graph.status.globally_terminal and not self.end.done() and not self._labelling:
            self.end.set_result(
                JobEnd(details=self.checkpointed(graph.details()), failure=graph.root_failure)
            )

    def note_slots_obtainable(self, slots_obtainable: bool) -> None:
        self._slots_obtainable = slots_obtainable
        self._update_starvation()

    def _update_starvation(self) -> None:
        is_starved = self.graph.is_starving and not self._slots_obtainable
        if is_starved is (self.starved_since.value is None):
            self.starved_since.set(asyncio.get_running_loop().time() if is_starved else None)

    async def _deploy(self, command: Deploy) -> None:
        executor = self.executors.get(command.slot.instance)
        if executor is None:
            self._fail(command.attempt, lost(command.slot.resource_id, "it is not connected"))
            return
        try:
            await self._launch(command, executor)
        finally:
            executor.deploying.discard(command.attempt)

    async def _launch(self, command: Deploy, executor: ConnectedExecutor) -> None:
        # The intent is durable before anything starts, so that the next leader knows of it.
        await self.attempts.put(
            AttemptRecord(
                job_id=self.job_id,
                region=command.region,
                attempt=command.attempt,
                number=command.number,
                allocation=command.slot.allocation,
                task_executor=executor.resource_id,
                instance=executor.instance,
                address=executor.address,
            )
        )
        attempt = self.graph.attempt(command.attempt)
        if attempt is None or attempt.state is not ExecutionState.DEPLOYING:
            # The attempt was cancelled before the call, so nothing can run for it.
            self._fail(command.attempt, Failure(error="Cancelled", message="never deployed"))
            return
        deployment = TaskDeployment(
            graph=self.graph.graph,
            region=command.region,
            attempt=command.attempt,
            number=command.number,
            allocation=command.slot.allocation,
            stopped=self.stopped,
            owner=self.graph.owner,
        )
        failpoint("deployment.before-submitting")
        await self._submit(deployment, executor)
        failpoint("deployment.after-submitting")

    async def _submit(self, deployment: TaskDeployment, executor: ConnectedExecutor) -> None:
        """Repeat the call until it is answered: a repetition is harmless, a lost call is not."""
        while self._wants_to_deploy(deployment.attempt, executor):
            try:
                await executor.gateway.submit_task(self.token, deployment)
            except NotFound as error:
                log.info("%s no longer has the slot: %s", executor.resource_id, error)
                await self._slot_is_gone(deployment)
            except StokerError as error:
                log.warning("deployment to %s failed: %s", executor.resource_id, error)
                if not error.retriable:
                    self._fail(deployment.attempt, _refusal(executor.resource_id, error))
                await asyncio.sleep(DEPLOY_RETRY_SECONDS)
            else:
                return

    async def _slot_is_gone(self, deployment: TaskDeployment) -> None:
        """Ask for another slot, unless an unanswered call did run the attempt to its end."""
        outcome = await self._recorded(deployment.region, deployment.attempt)
        if outcome is not None:
            self.ended(outcome)
        else:
            self.act(self.graph.slot_withdrawn(deployment.attempt, self.now))

    def _wants_to_deploy(self, attempt_id: AttemptId, executor: ConnectedExecutor) -> bool:
        attempt = self.graph.attempt(attempt_id)
        known = self.executors.get(executor.instance) is executor
        return known and attempt is not None and attempt.state is ExecutionState.DEPLOYING

    def _fail(self, attempt: AttemptId, failure: Failure) -> None:
        self.act(self.graph.attempt_failed(attempt, failure, self.now))

    async def drive_cancel(self, attempt_id: AttemptId, slot: SlotHandle) -> None:
        """Repeat the cancellation request until the attempt has ended."""
        while (attempt := self.graph.attempt(attempt_id)) and not attempt.state.terminal:
            executor = self.executors.get(slot.instance)
            if executor is not None and attempt_id not in executor.deploying:
                failpoint("cancel.before-asking")
                try:
                    await executor.gateway.cancel_task(self.token, self.job_id, attempt_id)
                    failpoint("cancel.after-asking")
                except StokerError as error:
                    log.info("could not cancel %s yet: %s", attempt_id, error)
            await asyncio.sleep(self._cancel_pause(executor, attempt_id))

    def _cancel_pause(self, executor: ConnectedExecutor | None, attempt: AttemptId) -> float:
        deploying = executor is not None and attempt in executor.deploying
        return 0.05 if deploying else self.services.options.cancel_retry.total_seconds()

    def spawn_exit_task(self, name: str, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a task for which the end of the job waits for a short time."""
        task = self.scope.spawn(name, coroutine)
        self.exit_tasks.add(task)
        task.add_done_callback(self.exit_tasks.discard)

    async def _restart_later(self, command: RestartAfter) -> None:
        await asyncio.sleep(command.seconds)
        self.act(self.graph.restart_due(command.region, command.attempt, self.now))

    async def resolve(
        self, attempt_id: AttemptId, failure: Failure, *, is_gone: Callable[[], bool]
    ) -> None:
        """End an attempt by its outcome record if there is one, otherwise with this failure.

        `is_gone` is asked again after the search for the record, because the task executor may
        have returned with the attempt.
        """
        attempt = self.graph.attempt(attempt_id)
        if attempt is None or attempt.state.terminal:
            return
        region = attempt.region
        outcome = await self._recorded(region, attempt_id)
        if outcome is not None:
            self.ended(outcome)
            return
        interrupted = await self.decided.was_interrupted(region, failure)
        if not is_gone():
            return
        failure = self.services.enrichers.label_now(failure)
        if interrupted:
            self.act(self.graph.attempt_interrupted(attempt_id, failure, self.now))
        else:
            self.act(self.graph.previous_attempt_lost(attempt_id, failure, self.now))
        self._ask_plugins_for_labels(attempt_id)

    async def _recorded(self, region: RegionId, attempt: AttemptId) -> AttemptOutcome | None:
        return await retry(
            lambda: self.outcomes.read(self.job_id, region, attempt),
            on=StorageUnavailable,
            backoff=BACKOFF,
        )

    def ended(self, outcome: AttemptOutcome) -> None:
        self.checkpoints.batches_committed(outcome.region, outcome.progress.recent_batches)
        if outcome.failure is not None and outcome.failure.labels.get("cause") == MOVED:
            # The task executor is draining. That is neither a failure nor a restart of the job.
            self.act(self.graph.slot_withdrawn(outcome.attempt, self.now))
        elif may_be_excused(self.graph.graph, outcome.region, outcome.failure):
            self._apply_after_output_check(outcome)
        else:
            self._apply_outcome(outcome)

    def _apply_outcome(self, outcome: AttemptOutcome) -> None:
        outcome = self._with_cause_label(outcome)
        known, commands = self.graph.attempt_ended(outcome, self.now)
        if known and outcome.failure is not None:
            self._ask_plugins_for_labels(outcome.attempt)
        self.act(commands)

    def _with_cause_label(self, outcome: AttemptOutcome) -> AttemptOutcome:
        if outcome.failure is None:
            return outcome
        failure = self.services.enrichers.label_now(outcome.failure)
        return msgspec.structs.replace(outcome, failure=failure)

    def _apply_after_output_check(self, outcome: AttemptOutcome) -> None:
        attempt = self.graph.attempt(outcome.attempt)
        is_over = attempt is None or attempt.state.terminal
        if not is_over and outcome.attempt not in self._checking_output:
            self._checking_output.add(outcome.attempt)
            self.scope.spawn(f"conclude {outcome.attempt}", self._check_output_and_apply(outcome))

    async def _check_output_and_apply(self, outcome: AttemptOutcome) -> None:
        try:
            interrupted = await self.decided.was_interrupted(outcome.region, outcome.failure)
        finally:
            self._checking_output.discard(outcome.attempt)
        failure = self._with_cause_label(outcome).failure
        if interrupted and failure is not None:
            commands = self.graph.attempt_interrupted(outcome.attempt, failure, self.now)
            self._ask_plugins_for_labels(outcome.attempt)
            self.act(commands)
        else:
            self._apply_outcome(outcome)

    def _ask_plugins_for_labels(self, attempt: AttemptId) -> None:
        """Ask the plug-ins for labels, while the job reacts to the failure at once."""
        records = [each for each in self.graph.failures if each.attempt == attempt]
        if records and self.services.enrichers.plugins and attempt not in self._labelling:
            self._labelling.add(attempt)
            self.scope.spawn(f"label {attempt}", self._label(attempt, records[-1]))

    async def _label(self, attempt: AttemptId, record: FailureRecord) -> None:
        try:
            labels = await self.services.enrichers.plugin_labels(record)
            self.graph.failure_labelled(attempt, labels)
        finally:
            self._labelling.discard(attempt)
        self._publish_state()


def lost(resource_id: ResourceId, reason: str) -> Failure:
    return Failure(
        error="TaskExecutorLost",
        message=f"task executor {resource_id} is lost: {reason}",
        labels={"cause": "task-executor-lost"},
    )


def _refusal(resource_id: ResourceId, error: StokerError) -> Failure:
    return Failure(
        error=type(error).__name__,
        message=f"task executor {resource_id} refused the task: {error}",
    )
