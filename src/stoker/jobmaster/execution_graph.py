"""The state machine of a running job: its regions, attempts, slots and failures. No I/O.

Messages about a job arrive late, twice, or in an unexpected order, and a wrong answer to one of
them could run a region twice or lose a result. Every decision about the job is therefore made here,
in pure code. Methods are events and return commands; `JobDriver` carries the commands out and feeds
their results back as events.

Invariants, tested with hypothesis:
- a region has at most one attempt that may run, and none after it finished, unless its
  materialized result is damaged;
- a slot is used by at most one attempt;
- a job that was asked to cancel before its end ends as CANCELED;
- nothing leaves a terminal status.

Every event after which a region may be deployed or a slot may be spare ends in `_advance`, which
derives the next status and deployments from the whole state.
"""

from collections.abc import Iterable, Mapping

import msgspec

from stoker.core.description import engine_text, plan_of
from stoker.core.graph import JobGraph, RestartPolicy
from stoker.core.ids import AllocationId, AttemptId, Ids, InstanceId, RegionId
from stoker.core.regions import regions_of
from stoker.core.results import (
    AttemptOutcome,
    Failure,
    FailureRecord,
    JobDetails,
    Progress,
)
from stoker.core.states import JOB_TRANSITIONS, ExecutionState, JobStatus
from stoker.core.values import Millis
from stoker.jobmaster.attempts import (
    Attempt,
    CancelAttempt,
    Command,
    PreviousAttempt,
    RestartAfter,
    SlotHandle,
)
from stoker.jobmaster.failures import FailureHistory, plan_failover
from stoker.jobmaster.regions import JobRegions, RegionAttempts
from stoker.jobmaster.restarts import strategy_for
from stoker.jobmaster.scheduling import Scheduler

MAX_INTERRUPTIONS = 5
"""How often one region may retry an interrupted attempt without asking the restart strategy."""


class ExecutionGraph:
    def __init__(
        self,
        graph: JobGraph,
        *,
        ids: Ids,
        policy: RestartPolicy,
        submitted_at: Millis,
        now: Millis,
        failures_kept: int = 16,
        attempts_kept: int = 16,
        full_fail_over: bool = False,
        owner: str = "",
    ) -> None:
        self.graph = graph
        self.owner = owner
        self.job_id = graph.job_id
        self.status = JobStatus.INITIALIZING
        self.timestamps: dict[JobStatus, Millis] = {JobStatus.INITIALIZING: submitted_at}
        self.failures = FailureHistory(failures_kept)
        self.root_failure: Failure | None = None
        self.restarts = 0
        self._root_attempt: AttemptId | None = None
        self._ids = ids
        self._strategy = strategy_for(policy)
        self._full = full_fail_over
        self._plan = plan_of(graph)
        self.runs = JobRegions(
            RegionAttempts(region, Attempt(ids.attempt(), 0, region.id), attempts_kept)
            for region in regions_of(graph)
        )
        for run in self.runs:
            run.current.timestamps[ExecutionState.CREATED] = now
        self._scheduler = Scheduler(self.runs, max_slots=graph.slots)

    def attempt(self, attempt: AttemptId) -> Attempt | None:
        """The attempt with this id if it is the current one of its region."""
        return self.runs.attempt(attempt)

    def attempts_on(self, instance: InstanceId) -> list[Attempt]:
        return self.runs.on(instance)

    def slots_on(self, instance: InstanceId) -> list[AllocationId]:
        return self._scheduler.slots_on(instance)

    @property
    def slots_held(self) -> int:
        return self._scheduler.slots_held

    @property
    def lacks_slots(self) -> bool:
        return bool(self.runs.scheduled())

    @property
    def is_starving(self) -> bool:
        """Whether nothing runs because slots are missing, even if the job holds a few."""
        return self.lacks_slots and not self.runs.used_slots()

    def slots_needed(self) -> int:
        return 0 if self.status.terminal else self._scheduler.slots_needed()

    def details(self) -> JobDetails:
        return JobDetails(
            job_id=self.job_id,
            name=self.graph.name,
            job_type=self.graph.job_type,
            status=self.status,
            timestamps=dict(self.timestamps),
            start=self.timestamps[JobStatus.INITIALIZING],
            end=self.timestamps[self.status] if self.status.globally_terminal else None,
            regions=tuple(run.details() for run in self.runs),
            failures=self.failures.newest_first(),
            plan=self._plan,
            configuration=self.graph.configuration,
            engine=engine_text(self.graph),
            restarts=self.restarts,
            parameters=self.graph.parameters,
            owner=self.owner,
        )

    def start(
        self,
        previous: Mapping[RegionId, PreviousAttempt],
        *,
        cancel_wanted: bool,
        now: Millis,
    ) -> list[Command]:
        self._move(JobStatus.CREATED, now)
        commands: list[Command] = []
        for region, record in previous.items():
            if (run := self.runs.get(region)) is not None:
                self._restore_attempt(run, record, now)
        if cancel_wanted:
            commands += self.cancel(now)
        else:
            self._move(JobStatus.RECONCILING if previous else JobStatus.RUNNING, now)
        for region, record in previous.items():
            if record.outcome is not None and (run := self.runs.get(region)) is not None:
                commands += self._apply_recorded_outcome(run.current, record, record.outcome, now)
        return commands + self._advance(now)

    def _apply_recorded_outcome(
        self, attempt: Attempt, record: PreviousAttempt, outcome: AttemptOutcome, now: Millis
    ) -> list[Command]:
        """Apply the recorded end of an attempt that a previous leader deployed.

        CANCELED means that its task executor was stopped or cut off, or that the previous leader
        was about to restart the region. The job itself continues, so the region is tried again.
        """
        stopped = outcome.state is ExecutionState.CANCELED or record.interrupted
        if stopped and outcome.failure is not None:
            return self.previous_attempt_lost(attempt.id, outcome.failure, now)
        return self._ended(attempt, outcome, now)

    def _restore_attempt(self, run: RegionAttempts, record: PreviousAttempt, now: Millis) -> None:
        attempt = Attempt(record.attempt, record.number, run.region.id, slot=record.slot)
        attempt.timestamps[ExecutionState.CREATED] = now
        attempt.move(ExecutionState.RECONCILING, now)
        run.current = attempt

    def slots_offered(
        self, slots: Iterable[SlotHandle], now: Millis
    ) -> tuple[list[AllocationId], list[Command]]:
        accepted = self._scheduler.accept(slots, self.slots_needed())
        return accepted, self._advance(now)

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
            self._advance_status(now)
        return True

    def attempt_progressed(self, attempt_id: AttemptId, progress: Progress) -> None:
        attempt = self.attempt(attempt_id)
        if attempt is not None and not attempt.state.terminal:
            attempt.progress = progress

    def attempt_ended(self, outcome: AttemptOutcome, now: Millis) -> tuple[bool, list[Command]]:
        attempt = self.attempt(outcome.attempt)
        if attempt is None or attempt.state.terminal:
            return False, []
        return True, self._ended(attempt, outcome, now) + self._advance(now)

    def attempt_failed(self, attempt_id: AttemptId, failure: Failure, now: Millis) -> list[Command]:
        """The attempt failed or was lost without an outcome from its task executor."""
        attempt = self.attempt(attempt_id)
        if attempt is None or attempt.state.terminal:
            return []
        outcome = attempt.failed_outcome(self.job_id, failure, now)
        return self._ended(attempt, outcome, now) + self._advance(now)

    def slot_withdrawn(self, attempt_id: AttemptId, now: Millis) -> list[Command]:
        """The task executor took the slot back: before the attempt began, or to drain.

        The region waits for another slot, and the restart strategy is not asked.
        """
        attempt = self.attempt(attempt_id)
        if attempt is None or attempt.state.terminal or attempt.slot is None:
            return []
        self._scheduler.drop(attempt.slot.allocation)
        if attempt.state is ExecutionState.CANCELING:
            self._canceled(attempt, now)
            return self._advance(now)
        return self._retry_uncounted(attempt, now)

    def previous_attempt_lost(
        self, attempt_id: AttemptId, failure: Failure, now: Millis
    ) -> list[Command]:
        """An attempt of a previous leader was lost, which does not count against the job."""
        attempt = self.attempt(attempt_id)
        if attempt is None or attempt.state is not ExecutionState.RECONCILING:
            return self.attempt_failed(attempt_id, failure, now)
        self.failures.add(attempt.failed_with(failure, now))
        return self._retry_uncounted(attempt, now)

    def attempt_interrupted(
        self, attempt_id: AttemptId, failure: Failure, now: Millis
    ) -> list[Command]:
        """The attempt died after its output was decided, or because of a task of another job."""
        attempt = self.attempt(attempt_id)
        if attempt is None or attempt.state.terminal:
            return []
        run = self.runs[attempt.region]
        if attempt.state is ExecutionState.CANCELING or run.interruptions >= MAX_INTERRUPTIONS:
            return self.attempt_failed(attempt_id, failure, now)
        run.interruptions += 1
        self.failures.add(attempt.failed_with(failure, now))
        return self._retry_uncounted(attempt, now)

    def _retry_uncounted(self, attempt: Attempt, now: Millis) -> list[Command]:
        attempt.move(ExecutionState.FAILED, now)
        self.runs[attempt.region].start_new_attempt(self._ids.attempt(), now, at_once=True)
        return self._advance(now)

    def failure_labelled(self, attempt_id: AttemptId, labels: Mapping[str, str]) -> None:
        """Enrichers have labelled a failure to which the job has already reacted."""
        self.failures.label(attempt_id, labels)
        if self.root_failure is not None and self._root_attempt == attempt_id:
            self.root_failure = msgspec.structs.replace(
                self.root_failure, labels={**self.root_failure.labels, **labels}
            )

    def slots_gone(self, instance: InstanceId) -> None:
        """Forget the slots there, so that others can replace them while attempts may still run."""
        self._scheduler.drop_executor(instance)

    def restart_due(self, region: RegionId, attempt: AttemptId, now: Millis) -> list[Command]:
        run = self.runs[region]
        if run.current.id == attempt:
            run.restart_pending = False
        return self._advance(now)

    def cancel(self, now: Millis) -> list[Command]:
        if self.status.terminal or self.status is JobStatus.CANCELLING:
            return []
        self._move(JobStatus.CANCELLING, now)
        return self._cancel_all(now) + self._advance(now)

    def fail(self, failure: Failure, now: Millis) -> list[Command]:
        """Fail the job as a whole."""
        if self.status.terminal or self.status in (JobStatus.FAILING, JobStatus.CANCELLING):
            return []
        self.failures.add(FailureRecord(failure=failure, at=now))
        return self._begin_failing(failure, now) + self._advance(now)

    def suspend(self, now: Millis) -> None:
        if not self.status.terminal:
            self._move(JobStatus.SUSPENDED, now)

    def _move(self, status: JobStatus, now: Millis) -> None:
        if status not in JOB_TRANSITIONS[self.status]:
            raise ValueError(f"job {self.job_id} cannot go from {self.status} to {status}")
        self.status = status
        self.timestamps[status] = now

    def _ended(self, attempt: Attempt, outcome: AttemptOutcome, now: Millis) -> list[Command]:
        attempt.progress = outcome.progress
        if attempt.state is ExecutionState.CANCELING or self.status is JobStatus.CANCELLING:
            if outcome.state is ExecutionState.FAILED and outcome.failure is not None:
                self.failures.add_concurrent(attempt.failed_with(outcome.failure, now))
            self._canceled(attempt, now)
            return []
        if outcome.state is ExecutionState.FINISHED:
            attempt.move(ExecutionState.FINISHED, now)
            return []
        failure = outcome.failure or Failure(
            error="AttemptCancelled", message="the attempt was cancelled at its task executor"
        )
        attempt.move(ExecutionState.FAILED, now)
        self.failures.add(attempt.failed_with(failure, now))
        return self._answer_failure(attempt, failure, now)

    def _canceled(self, attempt: Attempt, now: Millis) -> None:
        attempt.move(ExecutionState.CANCELED, now)
        run = self.runs[attempt.region]
        if run.restart_when_ended:
            run.start_new_attempt(self._ids.attempt(), now, at_once=True)

    def _answer_failure(self, attempt: Attempt, failure: Failure, now: Millis) -> list[Command]:
        delay = None
        if failure.retriable:
            jitter = self._ids.random.uniform(-1, 1)
            self._strategy, delay = self._strategy.after_failure(now / 1000, jitter)
        if delay is None:
            self._root_attempt = attempt.id
            return self._begin_failing(failure, now)
        self.restarts += 1
        plan = plan_failover(self.runs, self.runs[attempt.region], failure, full=self._full)
        for run in plan.follow:
            run.start_new_attempt(self._ids.attempt(), now, at_once=True)
        plan.restart.start_new_attempt(self._ids.attempt(), now)
        if self.status is JobStatus.RECONCILING:
            self._move(JobStatus.RUNNING, now)
        if self.status is JobStatus.RUNNING:
            self._move(JobStatus.RESTARTING, now)
        restart = RestartAfter(plan.restart.region.id, plan.restart.current.id, delay)
        return [restart, *self._cancel(plan.cancel, now, restart=True)]

    def _begin_failing(self, failure: Failure, now: Millis) -> list[Command]:
        self.root_failure = failure
        self._move(JobStatus.FAILING, now)
        return self._cancel_all(now)

    def _cancel_all(self, now: Millis) -> list[Command]:
        for run in self.runs:
            run.restart_pending = False
        return self._cancel(self.runs, now, restart=False)

    def _cancel(
        self, runs: Iterable[RegionAttempts], now: Millis, *, restart: bool
    ) -> list[Command]:
        commands: list[Command] = []
        for run in runs:
            attempt = run.current
            run.restart_when_ended = restart
            if attempt.state in (ExecutionState.CREATED, ExecutionState.SCHEDULED):
                attempt.move(ExecutionState.CANCELED, now)
            elif attempt.is_deployed and attempt.state is not ExecutionState.CANCELING:
                attempt.move(ExecutionState.CANCELING, now)
                if attempt.slot is not None:
                    commands.append(CancelAttempt(attempt.id, attempt.slot))
        return commands

    def _advance(self, now: Millis) -> list[Command]:
        """Derive the next status and the next commands from the present state."""
        self._advance_status(now)
        commands: list[Command] = []
        if self.status in (JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.RECONCILING):
            commands += self._scheduler.schedule(now)
        return commands + self._scheduler.release_surplus(self.slots_needed())

    def _advance_status(self, now: Millis) -> None:
        match self.status:
            case JobStatus.CANCELLING if self.runs.all_ended:
                self._move(JobStatus.CANCELED, now)
            case JobStatus.FAILING if self.runs.all_ended:
                self._move(JobStatus.FAILED, now)
            case JobStatus.RESTARTING if not self.runs.any_restarting:
                self._move(JobStatus.RUNNING, now)
            case JobStatus.RECONCILING if not self.runs.any_reconciling:
                self._move(JobStatus.RUNNING, now)
            case _:
                pass
        if self.status is JobStatus.RUNNING and self.runs.is_finished:
            self._move(JobStatus.FINISHED, now)
