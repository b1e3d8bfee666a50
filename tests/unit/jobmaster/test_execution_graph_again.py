"""The execution graph when things come late, twice, or in the middle of something else."""

from stoker.core.graph import RestartPolicy
from stoker.core.ids import AttemptId, RegionId
from stoker.core.states import ExecutionState, JobStatus
from stoker.jobmaster.commands import (
    Deploy,
    FormerAttempt,
    ReleaseSlots,
    RestartAfter,
)
from unit.jobmaster.graphs import (
    BOOM,
    deployments,
    ended,
    execution,
    executor_lost,
    former,
    graph_of,
    slot,
    started,
)


def test_an_outcome_that_is_told_again_changes_nothing() -> None:
    job, [deploy] = started(graph_of("one", "two"))
    outcome = ended(deploy, ExecutionState.FINISHED)
    job.attempt_ended(outcome, 6)
    assert job.attempt_ended(outcome, 7) == (False, [])
    assert job.attempt_failed(deploy.attempt, BOOM, 8) == []
    assert not job.failures


def test_slots_that_are_offered_after_the_end_are_declined() -> None:
    job, [deploy] = started(graph_of("out"))
    job.attempt_ended(ended(deploy, ExecutionState.FINISHED), 6)
    assert job.slots_offered([slot(0), slot(7)], 7) == ([], [])


def test_slots_are_accepted_and_kept_while_the_job_waits_to_restart() -> None:
    """JM-09"""
    policy = RestartPolicy(strategy="fixed-delay", attempts=1, delay_seconds=60)
    job, [deploy] = started(graph_of("out"), policy)
    [restart] = executor_lost(job, deploy.slot.instance, 6)
    assert isinstance(restart, RestartAfter)
    assert job.slots_needed() == 1
    assert job.slots_offered([slot(5, "other")], 7) == ([slot(5).allocation], [])
    [again] = deployments(job.restart_due(restart.region, restart.attempt, 66))
    assert again.slot.resource_id == "other"


def test_cancel_while_restarting_ends_the_job_and_gives_its_slot_back() -> None:
    policy = RestartPolicy(strategy="fixed-delay", attempts=1, delay_seconds=60)
    job, [deploy] = started(graph_of("out"), policy)
    _, [restart] = job.attempt_ended(ended(deploy, ExecutionState.FAILED, BOOM), 6)
    assert isinstance(restart, RestartAfter)
    assert job.cancel(7) == [ReleaseSlots((deploy.slot,))]
    assert job.status is JobStatus.CANCELED
    assert job.restart_due(restart.region, restart.attempt, 66) == []


def test_a_slot_that_is_not_there_any_more_costs_a_new_slot_and_not_the_job() -> None:
    job, [deploy] = started(graph_of("out"))
    assert job.deployment_refused(deploy.attempt, 6) == []
    assert (job.status, len(job.failures), job.slots_held) == (JobStatus.RUNNING, 0, 0)
    _, [again] = job.slots_offered([slot(9)], 7)
    assert isinstance(again, Deploy)
    assert (again.attempt != deploy.attempt, again.number) == (True, 1)


def test_a_refused_deployment_of_a_job_that_is_being_cancelled_ends_it() -> None:
    job, [deploy] = started(graph_of("out"))
    job.cancel(6)
    job.deployment_refused(deploy.attempt, 7)
    assert job.status is JobStatus.CANCELED


def test_a_recorded_cancel_with_recorded_outcomes_ends_at_once() -> None:
    job = execution(graph_of("out"))
    job.start(former(ExecutionState.FINISHED), cancel_wanted=True, now=3)
    assert job.status is JobStatus.CANCELED


def test_a_failure_on_record_is_answered_by_the_strategy_while_others_reconcile() -> None:
    policy = RestartPolicy(strategy="fixed-delay", attempts=1, delay_seconds=0)
    job = execution(graph_of("other", "out"), policy)
    other = FormerAttempt(attempt=AttemptId("d" * 32), number=0, slot=slot(1))
    records = {**former(ExecutionState.FAILED), RegionId("other"): other}
    [restart] = job.start(records, cancel_wanted=False, now=3)
    assert isinstance(restart, RestartAfter)
    assert job.status is JobStatus.RESTARTING
    job.restart_due(restart.region, restart.attempt, 4)
    assert job.attempt_changed(other.attempt, ExecutionState.RUNNING, 5)
    assert job.status is JobStatus.RUNNING


def test_a_streaming_job_with_a_part_of_its_slots_starves() -> None:
    job, none = started(graph_of("one", "two", streaming=True), slots=1)
    assert none == []
    assert job.starves
    job.slots_offered([slot(1)], 5)
    assert not job.starves


def test_an_attempt_of_an_earlier_leader_that_came_to_nothing_costs_no_restart() -> None:
    job = execution(graph_of("out"))
    job.start(former(), cancel_wanted=False, now=3)
    job.former_is_gone(AttemptId("e" * 32), BOOM, 4)
    assert job.status is JobStatus.RUNNING
    assert job.slots_needed() == 1
    _, commands = job.slots_offered([slot(7)], 5)
    assert [deploy.number for deploy in deployments(commands)] == [4]
    assert job.details().failures[0].failure == BOOM


def test_an_attempt_that_its_stopped_executor_ended_is_begun_again_by_the_next_leader() -> None:
    job = execution(graph_of("out"))
    recorded = former(ExecutionState.CANCELED)
    job.start(recorded, cancel_wanted=False, now=3)
    assert job.status is JobStatus.RUNNING
    _, commands = job.slots_offered([slot(7)], 5)
    assert [deploy.number for deploy in deployments(commands)] == [4]
