"""The execution graph, event by event, and under random events."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.graph import RestartPolicy
from stoker.core.ids import AttemptId, RegionId
from stoker.core.results import AttemptOutcome, Failure
from stoker.core.states import ExecutionState, JobStatus
from stoker.jobmaster.attempts import (
    CancelAttempt,
    Command,
    Deploy,
    PreviousAttempt,
    ReleaseSlots,
    RestartAfter,
)
from stoker.jobmaster.execution_graph import ExecutionGraph
from stoker.jobmaster.failures import DAMAGED_RESULT
from unit.jobmaster.graphs import (
    BOOM,
    HOPELESS,
    JOB,
    deployments,
    ended,
    execution,
    executor_lost,
    graph_with_sinks,
    previous,
    slot,
    started,
)


def test_a_job_with_one_region_goes_from_created_to_finished() -> None:
    job, [deploy] = started(graph_with_sinks("out"))
    assert job.status is JobStatus.RUNNING
    assert job.attempt_changed(deploy.attempt, ExecutionState.RUNNING, 5)
    known, commands = job.attempt_ended(ended(deploy, ExecutionState.FINISHED), 6)
    assert known
    assert job.status is JobStatus.FINISHED
    assert commands == [ReleaseSlots((slot(0),))]
    assert job.details().end == 6


def test_regions_of_a_batch_job_run_one_after_the_other_on_a_single_slot() -> None:
    job, [first] = started(graph_with_sinks("one", "two"))
    assert job.slots_needed() == 2
    _, commands = job.attempt_ended(ended(first, ExecutionState.FINISHED), 6)
    [second] = deployments(commands)
    assert second.slot == first.slot
    job.attempt_ended(ended(second, ExecutionState.FINISHED), 7)
    assert job.status is JobStatus.FINISHED


def test_a_region_waits_for_the_materialized_vertex_that_it_reads() -> None:
    job, [first] = started(graph_with_sinks("one", materialized=True), slots=1)
    assert first.region == "numbers"
    assert job.slots_needed() == 1
    _, commands = job.attempt_ended(ended(first, ExecutionState.FINISHED), 6)
    assert [deploy.region for deploy in deployments(commands)] == ["one"]


def test_streaming_regions_start_together_or_not_at_all() -> None:
    """With one slot of two, none of them starts (JM-13)."""
    job, none = started(graph_with_sinks("one", "two", streaming=True), slots=1)
    assert none == []
    _, commands = job.slots_offered([slot(1)], 5)
    assert {deploy.region for deploy in deployments(commands)} == {"one", "two"}


def test_surplus_slots_are_declined_and_a_repeated_offer_is_accepted_again() -> None:
    """The repetition deploys nothing (POOL-04)."""
    job, [deploy] = started(graph_with_sinks("out"))
    accepted, commands = job.slots_offered([slot(0), slot(1)], 5)
    assert accepted == [deploy.slot.allocation]
    assert commands == []


def test_without_a_restart_strategy_a_failure_ends_the_job_with_its_cause() -> None:
    job, [one, two] = started(graph_with_sinks("one", "two"), slots=2)
    _, commands = job.attempt_ended(ended(one, ExecutionState.FAILED, BOOM), 6)
    assert job.status is JobStatus.FAILING
    assert CancelAttempt(two.attempt, two.slot) in commands
    job.attempt_ended(ended(two, ExecutionState.CANCELED), 7)
    assert job.status is JobStatus.FAILED
    assert job.root_failure == BOOM
    assert job.details().failures[0].attempt == one.attempt


def test_a_failed_region_restarts_after_the_delay_while_others_continue() -> None:
    """When no restart is left, the job fails (FAIL-07, JM-17)."""
    policy = RestartPolicy(strategy="fixed-delay", attempts=1, delay_seconds=2)
    job, [one, two] = started(graph_with_sinks("one", "two"), policy, slots=2)
    _, commands = job.attempt_ended(ended(one, ExecutionState.FAILED, BOOM), 6)
    [restart] = [command for command in commands if isinstance(command, RestartAfter)]
    assert job.status is JobStatus.RESTARTING
    assert restart.seconds == 2
    [again] = deployments(job.restart_due(restart.region, restart.attempt, 8))
    assert (again.region, again.number) == ("one", 1)
    assert job.status is JobStatus.RUNNING
    assert job.attempt(two.attempt) is not None
    _, commands = job.attempt_ended(ended(again, ExecutionState.FAILED, BOOM), 9)
    assert job.status is JobStatus.FAILING


def test_a_failure_that_a_retry_cannot_fix_is_not_retried() -> None:
    """The restart strategy is not asked (FAIL-08)."""
    policy = RestartPolicy(strategy="fixed-delay", attempts=5)
    job, [deploy] = started(graph_with_sinks("out"), policy)
    job.attempt_ended(ended(deploy, ExecutionState.FAILED, HOPELESS), 6)
    assert job.status is JobStatus.FAILED


def test_the_loss_of_an_executor_removes_its_slots_and_fails_its_attempts() -> None:
    """The region restarts on another executor (JM-04, POOL-09, FAIL-09)."""
    policy = RestartPolicy(strategy="fixed-delay", attempts=1, delay_seconds=0)
    job, [deploy] = started(graph_with_sinks("out"), policy)
    [restart] = executor_lost(job, deploy.slot.instance, 6)
    assert isinstance(restart, RestartAfter)
    assert deployments(job.restart_due(restart.region, restart.attempt, 7)) == []
    assert job.slots_needed() == 1
    _, commands = job.slots_offered([slot(5, "other")], 8)
    assert deployments(commands)[0].slot.resource_id == "other"


def test_cancelling_before_any_deployment_ends_the_job_at_once() -> None:
    """There is no attempt to wait for (FAULT-09)."""
    job = execution(graph_with_sinks("out"))
    job.start({}, cancel_wanted=False, now=3)
    assert job.cancel(4) == []
    assert job.status is JobStatus.CANCELED


def test_cancelling_waits_for_running_attempts_and_wins_over_a_late_success() -> None:
    """The attempt finishes, and the job is CANCELED (JM-16)."""
    job, [deploy] = started(graph_with_sinks("out"))
    assert job.cancel(5) == [CancelAttempt(deploy.attempt, deploy.slot)]
    assert job.status is JobStatus.CANCELLING
    job.attempt_ended(ended(deploy, ExecutionState.FINISHED), 6)
    assert job.status is JobStatus.CANCELED


def test_a_report_of_another_attempt_changes_nothing() -> None:
    """It may come from an attempt that was replaced (JM-14)."""
    job, [deploy] = started(graph_with_sinks("out"))
    unknown = AttemptId("f" * 32)
    assert not job.attempt_changed(unknown, ExecutionState.RUNNING, 5)
    outcome = AttemptOutcome(
        job_id=JOB, region=deploy.region, attempt=unknown, state=ExecutionState.FINISHED, at=5
    )
    assert job.attempt_ended(outcome, 5) == (False, [])
    assert job.status is JobStatus.RUNNING


def test_a_new_master_waits_for_attempts_of_the_previous_one_and_adopts_them() -> None:
    job = execution(graph_with_sinks("out"))
    assert job.start(previous(), cancel_wanted=False, now=3) == []
    assert job.status is JobStatus.RECONCILING
    accepted, commands = job.slots_offered([slot(0)], 4)
    assert (accepted, commands) == ([slot(0).allocation], [])
    assert job.attempt_changed(AttemptId("e" * 32), ExecutionState.RUNNING, 5)
    assert job.status is JobStatus.RUNNING
    assert job.details().regions[0].current.number == 3


def test_a_region_whose_outcome_is_on_record_never_runs_again() -> None:
    job = execution(graph_with_sinks("out"))
    commands = job.start(previous(ExecutionState.FINISHED), cancel_wanted=False, now=3)
    assert deployments(commands) == []
    assert job.status is JobStatus.FINISHED


def test_a_job_with_a_recorded_cancellation_ends_as_canceled() -> None:
    job = execution(graph_with_sinks("out"))
    commands = job.start(previous(), cancel_wanted=True, now=3)
    assert commands == [CancelAttempt(AttemptId("e" * 32), slot(0))]
    job.attempt_failed(AttemptId("e" * 32), BOOM, 4)
    assert job.status is JobStatus.CANCELED


def test_nothing_leaves_a_terminal_status() -> None:
    job, [deploy] = started(graph_with_sinks("out"))
    job.attempt_ended(ended(deploy, ExecutionState.FINISHED), 6)
    assert job.cancel(7) == []
    assert job.fail(BOOM, 7) == []
    job.suspend(7)
    assert job.status is JobStatus.FINISHED
    with pytest.raises(ValueError, match="cannot go"):
        job._move(JobStatus.RUNNING, 8)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), max_size=40),
)
def test_the_invariants_hold_under_random_events(
    sinks: int, streaming: bool, materialized: bool, full: bool, events: list[tuple[int, int]]
) -> None:
    policy = RestartPolicy(strategy="fixed-delay", attempts=3, delay_seconds=0)
    graph = graph_with_sinks(
        *(f"sink-{number}" for number in range(sinks)),
        streaming=streaming,
        materialized=materialized and not streaming,
    )
    job = execution(graph, policy, full_fail_over=full)
    world = _World(job)
    world.record(job.start({}, cancel_wanted=False, now=1))
    for now, (kind, number) in enumerate(events, start=2):
        world.apply_event(kind, number, now)
        world.check()
    world.run_to_the_end(len(events) + 3)
    assert job.status.globally_terminal
    assert len(job.failures) <= 16
    assert all(len(run.previous) <= 16 for run in job.runs)
    if job.status is JobStatus.FINISHED:
        assert all(run.is_finished for run in job.runs)
    if world.cancelled:
        assert job.status is JobStatus.CANCELED


class _World:
    """Stands in for the task executors: a deployed attempt runs until an event ends it."""

    def __init__(self, job: ExecutionGraph) -> None:
        self.job = job
        self.running: dict[AttemptId, Deploy] = {}
        self.restarts: list[RestartAfter] = []
        self.finished: set[RegionId] = set()
        self.cancelled = False
        self.slots = 0

    def record(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Deploy():
                    assert command.region not in self.finished, "a finished region ran again"
                    busy = {other.slot.allocation for other in self.running.values()}
                    regions = {other.region for other in self.running.values()}
                    assert command.slot.allocation not in busy, "a slot has two owners"
                    assert command.region not in regions, "attempts of a region overlap"
                    self.running[command.attempt] = command
                case RestartAfter():
                    self.restarts.append(command)
                case CancelAttempt() | ReleaseSlots():
                    pass

    def apply_event(self, kind: int, number: int, now: int) -> None:
        deploy = list(self.running.values())[number] if number < len(self.running) else None
        match kind:
            case 0:
                self.slots += 1
                self.record(self.job.slots_offered([slot(self.slots)], now)[1])
            case 1 if deploy:
                self.end(deploy, ExecutionState.FINISHED, None, now)
            case 2 if deploy:
                self.end(deploy, ExecutionState.FAILED, BOOM, now)
            case 3 if deploy:
                self.job.attempt_changed(deploy.attempt, ExecutionState.RUNNING, now)
            case 4 if self.restarts:
                restart = self.restarts.pop(0)
                self.record(self.job.restart_due(restart.region, restart.attempt, now))
            case 5 if deploy:
                lost = [d for d in self.running.values() if d.slot.instance == deploy.slot.instance]
                for each in lost:
                    del self.running[each.attempt]
                self.record(executor_lost(self.job, deploy.slot.instance, now))
            case 6 if number == 5 and not self.job.status.terminal:
                self.record(self.job.cancel(now))
                self.cancelled = True
            case 7 if deploy:
                self.lose_result(deploy, now)
            case 8 if deploy:
                del self.running[deploy.attempt]
                self.record(self.job.attempt_interrupted(deploy.attempt, BOOM, now))
            case _:
                pass

    def lose_result(self, deploy: Deploy, now: int) -> None:
        """The attempt finds its input damaged, the only reason to run a finished region again."""
        if RegionId("numbers") in self.job.runs[deploy.region].region.reads:
            self.finished.discard(RegionId("numbers"))
        damaged = Failure(error="ResultDamaged", message="x", labels={DAMAGED_RESULT: "numbers"})
        self.end(deploy, ExecutionState.FAILED, damaged, now)

    def end(self, deploy: Deploy, state: ExecutionState, failure: Failure | None, now: int) -> None:
        del self.running[deploy.attempt]
        run = self.job.runs[deploy.region]
        if state is ExecutionState.FINISHED and run.current.state is not ExecutionState.CANCELING:
            self.finished.add(deploy.region)
        self.record(self.job.attempt_ended(ended(deploy, state, failure), now)[1])

    def check(self) -> None:
        deployed = {run.current.id for run in self.job.runs if run.current.is_deployed}
        assert deployed == set(self.running)

    def run_to_the_end(self, now: int) -> None:
        for _ in range(50):
            if self.job.status.globally_terminal:
                return
            self.apply_event(4, 0, now)
            for _ in range(5):
                self.apply_event(0, 0, now)
            for deploy in list(self.running.values()):
                self.end(deploy, ExecutionState.FINISHED, None, now)


def test_a_repeated_outcome_changes_nothing() -> None:
    job, [deploy] = started(graph_with_sinks("one", "two"))
    outcome = ended(deploy, ExecutionState.FINISHED)
    job.attempt_ended(outcome, 6)
    assert job.attempt_ended(outcome, 7) == (False, [])
    assert job.attempt_failed(deploy.attempt, BOOM, 8) == []
    assert not job.failures


def test_slots_that_are_offered_after_the_end_are_declined() -> None:
    """This includes a slot that the job has used (JM-15)."""
    job, [deploy] = started(graph_with_sinks("out"))
    job.attempt_ended(ended(deploy, ExecutionState.FINISHED), 6)
    assert job.slots_offered([slot(0), slot(7)], 7) == ([], [])


def test_slots_are_accepted_and_kept_while_the_job_waits_to_restart() -> None:
    """The region starts there when its delay is over (JM-09)."""
    policy = RestartPolicy(strategy="fixed-delay", attempts=1, delay_seconds=60)
    job, [deploy] = started(graph_with_sinks("out"), policy)
    [restart] = executor_lost(job, deploy.slot.instance, 6)
    assert isinstance(restart, RestartAfter)
    assert job.slots_needed() == 1
    assert job.slots_offered([slot(5, "other")], 7) == ([slot(5).allocation], [])
    [again] = deployments(job.restart_due(restart.region, restart.attempt, 66))
    assert again.slot.resource_id == "other"


def test_cancelling_while_restarting_ends_the_job_and_releases_its_slot() -> None:
    """The restart that is due later does nothing (JM-15, JM-16)."""
    policy = RestartPolicy(strategy="fixed-delay", attempts=1, delay_seconds=60)
    job, [deploy] = started(graph_with_sinks("out"), policy)
    _, [restart] = job.attempt_ended(ended(deploy, ExecutionState.FAILED, BOOM), 6)
    assert isinstance(restart, RestartAfter)
    assert job.cancel(7) == [ReleaseSlots((deploy.slot,))]
    assert job.status is JobStatus.CANCELED
    assert job.restart_due(restart.region, restart.attempt, 66) == []


def test_a_withdrawn_slot_is_replaced_without_a_failure() -> None:
    job, [deploy] = started(graph_with_sinks("out"))
    assert job.slot_withdrawn(deploy.attempt, 6) == []
    assert (job.status, len(job.failures), job.slots_held) == (JobStatus.RUNNING, 0, 0)
    _, [again] = job.slots_offered([slot(9)], 7)
    assert isinstance(again, Deploy)
    assert (again.attempt != deploy.attempt, again.number) == (True, 1)


def test_a_withdrawn_slot_ends_the_attempt_of_a_job_that_is_being_cancelled() -> None:
    job, [deploy] = started(graph_with_sinks("out"))
    job.cancel(6)
    job.slot_withdrawn(deploy.attempt, 7)
    assert job.status is JobStatus.CANCELED


def test_a_recorded_cancellation_with_recorded_outcomes_ends_the_job_at_once() -> None:
    job = execution(graph_with_sinks("out"))
    job.start(previous(ExecutionState.FINISHED), cancel_wanted=True, now=3)
    assert job.status is JobStatus.CANCELED


def test_a_recorded_failure_restarts_its_region_while_other_regions_reconcile() -> None:
    policy = RestartPolicy(strategy="fixed-delay", attempts=1, delay_seconds=0)
    job = execution(graph_with_sinks("other", "out"), policy)
    other = PreviousAttempt(attempt=AttemptId("d" * 32), number=0, slot=slot(1))
    records = {**previous(ExecutionState.FAILED), RegionId("other"): other}
    [restart] = job.start(records, cancel_wanted=False, now=3)
    assert isinstance(restart, RestartAfter)
    assert job.status is JobStatus.RESTARTING
    job.restart_due(restart.region, restart.attempt, 4)
    assert job.attempt_changed(other.attempt, ExecutionState.RUNNING, 5)
    assert job.status is JobStatus.RUNNING


def test_a_streaming_job_with_only_some_of_its_slots_starves() -> None:
    job, none = started(graph_with_sinks("one", "two", streaming=True), slots=1)
    assert none == []
    assert job.is_starving
    job.slots_offered([slot(1)], 5)
    assert not job.is_starving


def test_a_lost_attempt_of_a_previous_leader_costs_no_restart() -> None:
    job = execution(graph_with_sinks("out"))
    job.start(previous(), cancel_wanted=False, now=3)
    job.previous_attempt_lost(AttemptId("e" * 32), BOOM, 4)
    assert job.status is JobStatus.RUNNING
    assert job.slots_needed() == 1
    _, commands = job.slots_offered([slot(7)], 5)
    assert [deploy.number for deploy in deployments(commands)] == [4]
    assert job.details().failures[0].failure == BOOM


def test_an_attempt_ended_by_its_stopped_executor_is_restarted_by_the_next_leader() -> None:
    job = execution(graph_with_sinks("out"))
    recorded = previous(ExecutionState.CANCELED)
    job.start(recorded, cancel_wanted=False, now=3)
    assert job.status is JobStatus.RUNNING
    _, commands = job.slots_offered([slot(7)], 5)
    assert [deploy.number for deploy in deployments(commands)] == [4]
