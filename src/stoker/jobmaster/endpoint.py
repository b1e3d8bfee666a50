"""The job master's endpoint: calls of task executors and of the resource manager for one job.

The attempts that a task executor reports and those in the execution graph can differ, because any
message may be lost or overtaken. They are reconciled in both directions. An attempt that runs there
and is unknown here is cancelled. An attempt that is expected there and missing is resolved, unless
its deployment is still unanswered. Only a master that certainly leads renews leases, because a
successor may replace attempts whose lease has run out.
"""

import asyncio
import logging

from stoker.core.errors import NoLeader, NotFound, StokerError
from stoker.core.ids import AllocationId, AttemptId, InstanceId, ResourceId
from stoker.core.results import AttemptOutcome
from stoker.core.states import ExecutionState
from stoker.gateways.jobmaster import (
    AdmissionAnswer,
    Admitted,
    AttemptProgress,
    AttemptReport,
    JobMasterGateway,
    TaskExecutorIntroduction,
    job_component,
)
from stoker.gateways.resourcemanager import Declined
from stoker.gateways.taskexecutor import TaskExecutorGateway
from stoker.heartbeat.monitor import Liveness
from stoker.heartbeat.service import HeartbeatSender
from stoker.jobmaster.attempts import SlotHandle
from stoker.jobmaster.executors import ConnectedExecutor
from stoker.jobmaster.job import JobDriver
from stoker.jobmaster.losses import (
    fail_attempts_of_previous_instance,
    on_executor_silent,
    resolve_missing,
)
from stoker.rpc.service import Endpoint

log = logging.getLogger(__name__)


class JobMaster(Endpoint):
    gateway = JobMasterGateway

    def __init__(self, job: JobDriver) -> None:
        super().__init__(job_component(job.job_id), token=job.token)
        self._job = job
        self.beats: HeartbeatSender[None, set[AttemptId]] = HeartbeatSender(
            f"job master {job.job_id}",
            job.services.heartbeat,
            own_payload=lambda _: None,
            on_payload=self._missing_attempts,
            on_lost=self._on_silent,
            metrics=job.services.metrics,
            link="job master to task executors",
        )

    async def register_task_executor(
        self, introduction: TaskExecutorIntroduction
    ) -> AdmissionAnswer:
        job = self._job
        if introduction.job_id != job.job_id:
            return Declined(reason=f"this is the master of job {job.job_id}", final=True)
        try:
            gateway = await job.services.connections.connect(job.services.rpc, introduction.address)
        except StokerError as error:
            return Declined(reason=f"cannot reach you at {introduction.address}: {error}")
        self._require_leadership()
        self._drop_previous_instances(introduction)
        known = job.executors.get(introduction.instance)
        executor = known or self._add_executor(introduction, gateway)
        self._adopt_attempts(executor, introduction)
        return Admitted(accepted=self._accepted(executor, introduction.offered))

    def _add_executor(
        self, introduction: TaskExecutorIntroduction, gateway: TaskExecutorGateway
    ) -> ConnectedExecutor:
        job = self._job
        executor = ConnectedExecutor(
            resource_id=introduction.resource_id,
            instance=introduction.instance,
            address=introduction.address,
            gateway=gateway,
        )
        job.executors[executor.instance] = executor
        self.beats.monitor_target(executor.instance, lambda _: self._heartbeat(executor))
        job.scope.spawn(f"watch {executor.instance}", self._watch(executor))
        return executor

    def _drop_previous_instances(self, introduction: TaskExecutorIntroduction) -> None:
        job = self._job
        for instance, known in list(job.executors.items()):
            same = known.resource_id == introduction.resource_id
            if same and instance != introduction.instance:
                del job.executors[instance]
                job.graph.slots_gone(instance)
                self.beats.unmonitor_target(instance)
                job.scope.spawn(
                    f"fail attempts of {instance}", fail_attempts_of_previous_instance(job, known)
                )

    def _adopt_attempts(
        self, executor: ConnectedExecutor, introduction: TaskExecutorIntroduction
    ) -> None:
        """Adopt the attempts that the task executor runs, and cancel unknown ones.

        The introduction does not prove that an attempt is missing, because a deployment may have
        overtaken it. Missing attempts are found by the next heartbeat.
        """
        job = self._job
        job.lease_acknowledged[executor.instance] = asyncio.get_running_loop().time()
        for attempt in introduction.attempts:
            if attempt.outcome is not None:
                job.ended(attempt.outcome)
            elif not job.graph.attempt_changed(attempt.attempt, attempt.state, job.now):
                self._cancel_unknown(executor, attempt.attempt)
        if any(job.graph.attempts_on(executor.instance)):
            self.beats.poke(executor.instance)

    def _cancel_unknown(self, executor: ConnectedExecutor, attempt: AttemptId) -> None:
        log.warning("%s runs the unknown attempt %s", executor.instance, attempt)
        self._job.scope.spawn(f"cancel unknown {attempt}", self._cancel(executor, attempt))

    async def _cancel(self, executor: ConnectedExecutor, attempt: AttemptId) -> None:
        job = self._job
        try:
            await executor.gateway.cancel_task(job.token, job.job_id, attempt)
        except StokerError as error:
            log.info("could not cancel %s: %s", attempt, error)

    async def _watch(self, executor: ConnectedExecutor) -> None:
        while self._job.executors.get(executor.instance) is executor:
            await self._job.services.rpc.wait_until_gone(executor.address)
            self.beats.poke(executor.instance)
            await asyncio.sleep(self._job.services.heartbeat.interval.total_seconds())

    async def _heartbeat(self, executor: ConnectedExecutor) -> set[AttemptId]:
        """Returns the attempts that were deployed there before this heartbeat and are missing."""
        job = self._job
        deployed = {attempt.id for attempt in job.graph.attempts_on(executor.instance)}
        expected = deployed - executor.deploying
        slots = tuple(job.graph.slots_on(executor.instance))
        try:
            present = await executor.gateway.heartbeat_from_job_master(job.token, job.job_id, slots)
        except NotFound:
            present = ()
        for attempt in sorted(set(present) - deployed - executor.deploying):
            if job.graph.attempt(attempt) is None:
                self._cancel_unknown(executor, attempt)
        return expected - set(present)

    def _missing_attempts(self, instance: str, missing: set[AttemptId]) -> None:
        if missing:
            job = self._job
            job.scope.spawn("resolve missing", resolve_missing(job, InstanceId(instance), missing))

    def _on_silent(self, instance: str, liveness: Liveness) -> None:
        on_executor_silent(self._job, InstanceId(instance), liveness)

    def task_executor_lost(
        self, resource_id: ResourceId, instance: InstanceId, reason: str
    ) -> None:
        # Only a hint: this master finds out by itself whether the attempts are dead.
        self.beats.poke(instance)

    def offer_slots(
        self, instance: InstanceId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AllocationId, ...]:
        return self._accepted(self._executor(instance), allocations)

    def _accepted(
        self, executor: ConnectedExecutor, allocations: tuple[AllocationId, ...]
    ) -> tuple[AllocationId, ...]:
        job = self._job
        slots = [
            SlotHandle(
                allocation=each, resource_id=executor.resource_id, instance=executor.instance
            )
            for each in allocations
        ]
        accepted, commands = job.graph.slots_offered(slots, job.now)
        job.act(commands)
        return tuple(accepted)

    def _executor(self, instance: InstanceId) -> ConnectedExecutor:
        executor = self._job.executors.get(instance)
        if executor is None:
            raise NotFound(f"task executor instance {instance} is not registered for this job")
        return executor

    def attempt_changed(self, report: AttemptReport) -> bool:
        known = self._apply_state(report)
        self._job.act([])
        return known

    def _apply_state(self, report: AttemptReport) -> bool:
        state = ExecutionState(report.state)
        return self._job.graph.attempt_changed(report.attempt, state, report.at)

    def attempt_ended(
        self, instance: InstanceId, outcome: AttemptOutcome, before: AttemptReport | None
    ) -> tuple[AllocationId, ...]:
        if before is not None:
            self._apply_state(before)
        with self._job.slot_releases.collecting_for(instance) as returned:
            self._job.ended(outcome)
        return tuple(returned)

    def attempts_progressed(
        self, instance: InstanceId, reports: tuple[AttemptProgress, ...]
    ) -> None:
        for report in reports:
            self._job.graph.attempt_progressed(report.attempt, report.progress)
            if (attempt := self._job.graph.attempt(report.attempt)) is not None:
                self._job.checkpoints.batches_committed(
                    attempt.region, report.progress.recent_batches
                )

    def renew_leases(
        self, instance: InstanceId, attempts: tuple[AttemptId, ...]
    ) -> tuple[AttemptId, ...]:
        self._executor(instance)
        self._require_leadership()
        self._job.lease_acknowledged[instance] = asyncio.get_running_loop().time()
        current = {attempt.id for attempt in self._job.graph.attempts_on(instance)}
        return tuple(attempt for attempt in attempts if attempt in current)

    def _require_leadership(self) -> None:
        """Refuse to renew leases unless no other master can replace the attempts."""
        if not self._job.leadership.grant.is_certain:
            raise NoLeader(
                f"the master of job {self._job.job_id} is not certain that it leads; try again"
            )

    def heartbeat_from_resource_manager(self) -> None:
        """Nothing to do: the answer itself is the sign of life."""
