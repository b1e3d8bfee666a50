"""A job as it runs: regions, their attempts, slots, failures. Events in, commands out; no I/O.

Invariants, tested with hypothesis:
- a region has at most one attempt that may run, and none after it finished;
- a slot is used by at most one attempt;
- a job whose cancel was asked for before its end ends as CANCELED;
- nothing leaves a terminal status.
"""

from collections.abc import Iterable, Mapping

from stoker.core.graph import JobGraph, RestartPolicy
from stoker.core.ids import AllocationId, AttemptId, Ids, InstanceId, RegionId
from stoker.core.plan import plan_of
from stoker.core.regions import regions_of
from stoker.core.results import (
    AttemptOutcome,
    Failure,
    FailureRecord,
    JobDetails,
    Millis,
    Progress,
)
from stoker.core.states import JOB_TRANSITIONS, ExecutionState, JobStatus
from stoker.jobmaster.attempts import Attempt, RegionRun, SlotHandle
from stoker.jobmaster.commands import (
    CancelAttempt,
    Command,
    Deploy,
    FormerAttempt,
    ReleaseSlots,
    RestartAfter,
)
from stoker.jobmaster.restarts import strategy_for
from stoker.jobmaster.slot_pool import SlotPool

FAILURES_KEPT = 16


class ExecutionGraph:
    def __init__(
        self,
        graph: JobGraph,
        *,
        ids: Ids,
        policy: RestartPolicy,
        submitted_at: Millis,
        now: Millis,
    ) -> None:
        self.graph = graph
        self.job_id = graph.job_id
        self.status = JobStatus.INITIALIZING
        self.timestamps: dict[JobStatus, Millis] = {JobStatus.INITIALIZING: submitted_at}
        self.failures: list[FailureRecord] = []
        self.root_failure: Failure | None = None
        self._ids = ids
        self._strategy = strategy_for(policy)
        self._pool = SlotPool()
        self._runs: dict[RegionId, RegionRun] = {}
        self._plan = plan_of(graph)
        for region in regions_of(graph):
            attempt = Attempt(ids.attempt(), 0, region.id)
            attempt.timestamps[ExecutionState.CREATED] = now
            self._runs[region.id] = RegionRun(region, attempt)

    # What is asked of it

    @property
    def runs(self) -> Iterable[RegionRun]:
        return self._runs.values()

    def attempt(self, attempt: AttemptId) -> Attempt | None:
        """The attempt, when it is the current one of its region."""
        for run in self._runs.values():
            if run.current.id == attempt:
                return run.current
        return None

    def attempts_on(self, instance: InstanceId) -> list[Attempt]:
        return [
            run.current
            for run in self._runs.values()
            if run.current.deployed and run.current.slot and run.current.slot.instance == instance
        ]

    def slots_on(self, instance: InstanceId) -> list[AllocationId]:
        return self._pool.on(instance)

    @property
    def slots_held(self) -> int:
        return len(self._pool)

    @property
    def lacks_slots(self) -> bool:
        return bool(self._scheduled())

    @property
    def starves(self) -> bool:
        """Nothing of it runs, for want of slots; a few that are not enough do not help."""
        return self.lacks_slots and not self._used()

    def _used(self) -> set[AllocationId]:
        return {
            run.current.slot.allocation
            for run in self._runs.values()
            if run.current.deployed and run.current.slot
        }

    def _free(self) -> list[SlotHandle]:
        return self._pool.free(self._used())

    def slots_needed(self) -> int:
        """For what may run now or soon: deployed, waiting for a slot, or to restart (JM-09)."""
        if self.status.terminal:
            return 0
        return sum(run.wants_slot for run in self._runs.values())

    def details(self) -> JobDetails:
        end = self.timestamps[self.status] if self.status.globally_terminal else None
        return JobDetails(
            job_id=self.job_id,
            name=self.graph.name,
            job_type=self.graph.job_type,
            status=self.status,
            timestamps=dict(self.timestamps),
            start=self.timestamps[JobStatus.INITIALIZING],
            end=end,
            regions=tuple(run.details() for run in self._runs.values()),
            failures=tuple(reversed(self.failures)),
            plan=self._plan,
            configuration=self.graph.configuration,
            parameters=self.graph.parameters,
        )

    # Events

    def start(
        self,
        former: Mapping[RegionId, FormerAttempt],
        *,
        cancel_wanted: bool,
        now: Millis,
    ) -> list[Command]:
        self._move(JobStatus.CREATED, now)
        commands: list[Command] = []
        for region, record in former.items():
            if (run := self._runs.get(region)) is not None:
                self._recall(run, record, now)
        if cancel_wanted:
            commands += self.cancel(now)
        else:
            self._move(JobStatus.RECONCILING if former else JobStatus.RUNNING, now)
        for region, record in former.items():
            if record.outcome is not None and region in self._runs:
                commands += self._hear_of(self._runs[region].current, record.outcome, now)
        return commands + self._settle(now)

    def _hear_of(self, attempt: Attempt, outcome: AttemptOutcome, now: Millis) -> list[Command]:
        """An end on record. Nobody asked for a cancel, so its executor was stopped or cut off."""
        if outcome.state is ExecutionState.CANCELED and outcome.failure is not None:
            return self.former_is_gone(attempt.id, outcome.failure, now)
        return self._ended(attempt, outcome, now)

    def _recall(self, run: RegionRun, record: FormerAttempt, now: Millis) -> None:
        attempt = Attempt(record.attempt, record.number, run.region.id, slot=record.slot)
        attempt.timestamps[ExecutionState.CREATED] = now
        attempt.move(ExecutionState.RECONCILING, now)
        run.current = attempt

    def slots_offered(
        self, slots: Iterable[SlotHandle], now: Millis
    ) -> tuple[list[AllocationId], list[Command]]:
        """Accepts what is needed; a repeated offer of an accepted slot is accepted again."""
        accepted: list[AllocationId] = []
        for slot in slots:
            known = slot.allocation in self._pool or slot.allocation in self._used()
            if known or len(self._pool) < self.slots_needed():
                self._pool.add(slot)
                accepted.append(slot.allocation)
        return accepted, self._settle(now)

    def attempt_changed(self, attempt_id: AttemptId, state: ExecutionState, now: Millis) -> bool:
        attempt = self.attempt(attempt_id)
        if attempt is None or attempt.state.terminal:
            return False
        if state in (ExecutionState.INITIALIZING, ExecutionState.RUNNING) and attempt.state in (
            ExecutionState.DEPLOYING,
            ExecutionState.INITIALIZING,
            ExecutionState.RECONCILING,
        ):
            if state is not attempt.state:
                attempt.move(state, now)
            self._settle_status(now)
        return True

    def attempt_progressed(self, attempt_id: AttemptId, progress: Progress) -> None:
        attempt = self.attempt(attempt_id)
        if attempt is not None and not attempt.state.terminal:
            attempt.progress = progress

    def attempt_ended(self, outcome: AttemptOutcome, now: Millis) -> tuple[bool, list[Command]]:
        attempt = self.attempt(outcome.attempt)
        if attempt is None or attempt.state.terminal:
            return False, []
        return True, self._ended(attempt, outcome, now) + self._settle(now)

    def attempt_failed(self, attempt_id: AttemptId, failure: Failure, now: Millis) -> list[Command]:
        """It failed on the way, or was lost: there is no outcome from its task executor."""
        attempt = self.attempt(attempt_id)
        if attempt is None or attempt.state.terminal:
            return []
        outcome = AttemptOutcome(
            job_id=self.job_id,
            region=attempt.region,
            attempt=attempt_id,
            state=ExecutionState.FAILED,
            at=now,
            failure=failure,
            progress=attempt.progress,
        )
        return self._ended(attempt, outcome, now) + self._settle(now)

    def deployment_refused(self, attempt_id: AttemptId, now: Millis) -> list[Command]:
        """Its slot is not there any more, so nothing ran: the region waits for another one."""
        attempt = self.attempt(attempt_id)
        if attempt is None or attempt.state.terminal or attempt.slot is None:
            return []
        self._pool.drop(attempt.slot.allocation)
        if attempt.state is ExecutionState.CANCELING:
            attempt.move(ExecutionState.CANCELED, now)
            return self._settle(now)
        return self._start_over(attempt, now)

    def former_is_gone(self, attempt_id: AttemptId, failure: Failure, now: Millis) -> list[Command]:
        """An attempt of an earlier leader came to nothing, through no fault of the job."""
        attempt = self.attempt(attempt_id)
        if attempt is None or attempt.state is not ExecutionState.RECONCILING:
            return self.attempt_failed(attempt_id, failure, now)
        self._note(attempt.failed_with(failure, now))
        return self._start_over(attempt, now)

    def _start_over(self, attempt: Attempt, now: Millis) -> list[Command]:
        attempt.move(ExecutionState.FAILED, now)
        self._runs[attempt.region].begin_again(self._ids.attempt(), now, at_once=True)
        return self._settle(now)

    def slots_gone(self, instance: InstanceId) -> None:
        """Others are welcome in their place, also while attempts there may still run."""
        self._pool.drop_executor(instance)

    def restart_due(self, region: RegionId, attempt: AttemptId, now: Millis) -> list[Command]:
        run = self._runs[region]
        if run.current.id == attempt:
            run.restart_pending = False
        return self._settle(now)

    def cancel(self, now: Millis) -> list[Command]:
        if self.status.terminal or self.status is JobStatus.CANCELLING:
            return []
        self._move(JobStatus.CANCELLING, now)
        return self._cancel_all(now) + self._settle(now)

    def fail(self, failure: Failure, now: Millis) -> list[Command]:
        """The job as a whole cannot go on."""
        if self.status.terminal or self.status in (JobStatus.FAILING, JobStatus.CANCELLING):
            return []
        self._note(FailureRecord(failure=failure, at=now))
        return self._begin_failing(failure, now) + self._settle(now)

    def suspend(self, now: Millis) -> None:
        if not self.status.terminal:
            self._move(JobStatus.SUSPENDED, now)

    # Consequences

    def _move(self, status: JobStatus, now: Millis) -> None:
        if status not in JOB_TRANSITIONS[self.status]:
            raise ValueError(f"job {self.job_id} cannot go from {self.status} to {status}")
        self.status = status
        self.timestamps[status] = now

    def _ended(self, attempt: Attempt, outcome: AttemptOutcome, now: Millis) -> list[Command]:
        attempt.progress = outcome.progress
        if attempt.state is ExecutionState.CANCELING or self.status is JobStatus.CANCELLING:
            attempt.move(ExecutionState.CANCELED, now)
            return []
        if outcome.state is ExecutionState.FINISHED:
            attempt.move(ExecutionState.FINISHED, now)
            return []
        failure = outcome.failure or Failure(
            error="AttemptCancelled", message="the attempt was cancelled at its task executor"
        )
        attempt.move(ExecutionState.FAILED, now)
        self._note(attempt.failed_with(failure, now))
        return self._answer_failure(attempt, failure, now)

    def _answer_failure(self, attempt: Attempt, failure: Failure, now: Millis) -> list[Command]:
        if self.status is JobStatus.FAILING:
            return []
        delay = None
        if failure.retriable:
            jitter = self._ids.random.uniform(-1, 1)
            self._strategy, delay = self._strategy.after_failure(now / 1000, jitter)
        if delay is None:
            return self._begin_failing(failure, now)
        run = self._runs[attempt.region]
        run.begin_again(self._ids.attempt(), now)
        if self.status is JobStatus.RECONCILING:
            self._move(JobStatus.RUNNING, now)
        if self.status is JobStatus.RUNNING:
            self._move(JobStatus.RESTARTING, now)
        return [RestartAfter(attempt.region, run.current.id, delay)]

    def _begin_failing(self, failure: Failure, now: Millis) -> list[Command]:
        self.root_failure = failure
        self._move(JobStatus.FAILING, now)
        return self._cancel_all(now)

    def _cancel_all(self, now: Millis) -> list[Command]:
        commands: list[Command] = []
        for run in self._runs.values():
            attempt = run.current
            run.restart_pending = False
            if attempt.state in (ExecutionState.CREATED, ExecutionState.SCHEDULED):
                attempt.move(ExecutionState.CANCELED, now)
            elif attempt.deployed and attempt.state is not ExecutionState.CANCELING:
                attempt.move(ExecutionState.CANCELING, now)
                if attempt.slot is not None:
                    commands.append(CancelAttempt(attempt.id, attempt.slot))
        return commands

    def _note(self, record: FailureRecord) -> None:
        self.failures = [*self.failures, record][-FAILURES_KEPT:]

    def _scheduled(self) -> list[RegionRun]:
        return [run for run in self._runs.values() if run.current.state is ExecutionState.SCHEDULED]

    def _settle(self, now: Millis) -> list[Command]:
        """Draw what follows from the present state: next deployments, next status."""
        self._settle_status(now)
        commands: list[Command] = []
        if self.status in (JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.RECONCILING):
            commands += self._schedule(now)
        return commands + self._release_surplus()

    def _settle_status(self, now: Millis) -> None:
        runs = list(self._runs.values())
        at_rest = all(run.current.state.terminal for run in runs)
        match self.status:
            case JobStatus.CANCELLING if at_rest:
                self._move(JobStatus.CANCELED, now)
            case JobStatus.FAILING if at_rest:
                self._move(JobStatus.FAILED, now)
            case JobStatus.RESTARTING if not any(run.restart_pending for run in runs):
                self._move(JobStatus.RUNNING, now)
            case JobStatus.RECONCILING if not any(
                run.current.state is ExecutionState.RECONCILING for run in runs
            ):
                self._move(JobStatus.RUNNING, now)
            case _:
                pass
        if self.status is JobStatus.RUNNING and all(run.finished for run in runs):
            self._move(JobStatus.FINISHED, now)

    def _schedule(self, now: Millis) -> list[Command]:
        for run in self._runs.values():
            ready = all(self._runs[upstream].finished for upstream in run.region.reads)
            waits = run.current.state is ExecutionState.CREATED and not run.restart_pending
            if ready and waits:
                run.current.move(ExecutionState.SCHEDULED, now)
        waiting = self._scheduled()
        # Streaming regions start together or not at all; batch regions as slots come (JM-13).
        together = [run for run in waiting if run.region.streaming]
        apart = [run for run in waiting if not run.region.streaming]
        free = len(self._free())
        chosen = together if free >= len(together) else []
        chosen = [*chosen, *apart[: free - len(chosen)]]
        commands: list[Command] = []
        for run in chosen:
            slot = self._take_slot(run)
            run.current.slot = slot
            run.current.move(ExecutionState.DEPLOYING, now)
            commands.append(Deploy(run.region.id, run.current.id, run.current.number, slot))
        return commands

    def _take_slot(self, run: RegionRun) -> SlotHandle:
        """A slot on the executor of the former attempt, if there is one (POOL-11)."""
        former = run.former[-1].slot if run.former else None
        free = self._free()
        same = [slot for slot in free if former and slot.resource_id == former.resource_id]
        return same[0] if same else free[0]

    def _release_surplus(self) -> list[Command]:
        busy = self._pool.busy(self._used())
        surplus = self._free()[max(0, self.slots_needed() - busy) :]
        if not surplus:
            return []
        for slot in surplus:
            self._pool.drop(slot.allocation)
        return [ReleaseSlots(tuple(surplus))]
