"""A job master and its task executors, on virtual time."""

import asyncio

import msgspec
import pytest

from stoker.core.errors import NotFound
from stoker.core.ids import AllocationId, AttemptId, InstanceId, JobId, RegionId
from stoker.core.results import COLLATERAL, AttemptOutcome, Failure
from stoker.core.states import ExecutionState
from stoker.gateways.jobmaster import Admitted, AttemptReport, HeldAttempt
from stoker.gateways.resourcemanager import Declined
from unit.jobmaster.stage import JOB, SLOT, Stage, play

LIFE = InstanceId("life-1")


def outcome_of(
    attempt: AttemptId, state: ExecutionState, failure: Failure | None = None
) -> AttemptOutcome:
    return AttemptOutcome(
        job_id=JOB, region=RegionId("out"), attempt=attempt, state=state, at=1, failure=failure
    )


def test_an_executor_that_names_another_job_is_declined_finally() -> None:
    """Shows JM-06."""

    async def story(stage: Stage) -> None:
        wrong = stage.introduction(job_id=JobId("f" * 32))
        answer = await stage.master.register_task_executor(wrong)
        assert isinstance(answer, Declined)
        assert answer.final

    play(story)


def test_slots_of_an_executor_that_is_not_registered_are_refused() -> None:
    """Shows JM-08."""

    async def story(stage: Stage) -> None:
        with pytest.raises(NotFound, match="is not registered"):
            await stage.master.offer_slots(InstanceId("unknown"), (SLOT,))

    play(story)


def test_a_repeated_registration_changes_nothing_and_a_new_instance_replaces_the_old() -> None:
    """Shows JM-07."""

    async def story(stage: Stage) -> None:
        first = await stage.deploy()
        await stage.master.register_task_executor(stage.introduction())
        await asyncio.sleep(1)
        assert stage.failures == []
        stage.network.crash("executor")
        async with stage.next_life() as second:
            await stage.master.register_task_executor(second)
            await asyncio.sleep(10)
            assert stage.failures == ["TaskExecutorLost"]
            assert stage.job.graph.attempt(first) is None, "another attempt is the current one"

    play(story)


def test_a_previous_instance_that_still_answers_is_replaced_when_its_lease_has_run_out() -> None:
    """A new process with its name does not prove its death (JM-07, design invariant 3)."""

    async def story(stage: Stage) -> None:
        await stage.deploy()
        lease = stage.job.services.lease
        async with stage.next_life() as second:
            await stage.master.register_task_executor(second)
            await asyncio.sleep(lease.duration.total_seconds() - 1)
            assert stage.failures == []
            await asyncio.sleep(lease.margin.total_seconds() + 2)
            assert stage.failures == ["TaskExecutorLost"]

    play(story)


def test_heartbeats_list_the_slots_that_the_job_holds_at_the_executor() -> None:
    """Shows JM-10 and JM-03."""

    async def story(stage: Stage) -> None:
        await stage.deploy()
        await asyncio.sleep(5)
        assert stage.executor.counted[-1] == (SLOT,)

    play(story)


def test_a_missing_attempt_is_cancelled_first_and_then_failed() -> None:
    """Shows JM-11."""

    async def story(stage: Stage) -> None:
        attempt = await stage.deploy()
        stage.executor.has.clear()
        await asyncio.sleep(2.5)
        assert stage.executor.cancelled == [attempt]
        assert stage.failures == ["AttemptLost"]

    play(story)


def test_an_introduction_overtaken_by_a_deployment_fails_no_attempt() -> None:
    """The list of attempts in the introduction is older than the attempt (JM-11)."""

    async def story(stage: Stage) -> None:
        await stage.deploy()
        await stage.master.register_task_executor(stage.introduction(attempts=()))
        await asyncio.sleep(5)
        assert stage.failures == []
        assert stage.executor.cancelled == []

    play(story)


def test_an_attempt_that_nobody_deployed_is_cancelled() -> None:
    """Shows JM-11."""

    async def story(stage: Stage) -> None:
        unknown = HeldAttempt(
            region=RegionId("out"),
            attempt=AttemptId("f" * 32),
            number=0,
            allocation=SLOT,
            state=ExecutionState.RUNNING,
        )
        await stage.master.register_task_executor(stage.introduction(attempts=(unknown,)))
        await asyncio.sleep(0.1)
        assert stage.executor.cancelled == [unknown.attempt]

    play(story)


def test_a_deployment_to_a_freed_slot_is_not_retried_and_costs_no_restart() -> None:
    async def story(stage: Stage) -> None:
        stage.executor.slot_is_there = False
        await stage.admit()
        await asyncio.sleep(5)
        assert stage.failures == []
        assert stage.job.slot_needs.value == (1, 0)

    play(story)


def test_a_lost_deployment_is_sent_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.master.register_task_executor(stage.introduction())
        await asyncio.sleep(0.1)
        stage.network.partition("master", "executor")
        await stage.master.offer_slots(LIFE, (SLOT,))
        await asyncio.sleep(5)
        stage.network.heal()
        await asyncio.sleep(8)
        assert len(stage.executor.has) == 1
        assert stage.failures == []

    play(story)


def test_attempts_of_a_silent_executor_are_replaced_only_after_the_last_acknowledged_lease() -> (
    None
):
    """This holds also if it returned in between and renewed its leases (JM-04, JM-03)."""

    async def story(stage: Stage) -> None:
        await stage.deploy()
        await asyncio.sleep(20)
        stage.network.partition("master", "executor")
        await asyncio.sleep(15)
        stage.network.heal()
        await stage.master.register_task_executor(stage.introduction())
        renewed = asyncio.get_running_loop().time()
        stage.network.partition("master", "executor")
        await asyncio.sleep(renewed + 64 - asyncio.get_running_loop().time())
        assert stage.failures == []
        await asyncio.sleep(2)
        assert stage.failures == ["TaskExecutorLost"]

    play(story)


@pytest.mark.parametrize(("labels", "restarts"), [({"cause": COLLATERAL}, 0), ({}, 1)])
def test_an_attempt_ended_because_of_another_job_is_retried_without_counting_a_restart(
    labels: dict[str, str], restarts: int
) -> None:
    async def story(stage: Stage) -> None:
        attempt = await stage.deploy()
        failure = Failure(error="SparkServerDied", message="it was killed", labels=labels)
        stage.job.ended(outcome_of(attempt, ExecutionState.FAILED, failure))
        await asyncio.sleep(3)
        assert len(stage.executor.has) == 2
        assert stage.job.graph.restarts == restarts
        assert stage.failures == ["SparkServerDied"], "the history has it all the same"

    play(story)


def test_a_surplus_slot_is_returned_in_the_answer_to_its_own_executor() -> None:
    async def story(stage: Stage) -> None:
        finished = outcome_of(await stage.deploy(), ExecutionState.FINISHED)
        assert await stage.master.attempt_ended(LIFE, finished, None) == (SLOT,)
        assert await stage.master.attempt_ended(LIFE, finished, None) == ()
        await asyncio.sleep(1)
        assert stage.executor.freed == []

    play(story)


def test_a_state_reported_with_the_outcome_keeps_its_own_timestamp() -> None:
    async def story(stage: Stage) -> None:
        attempt = await stage.deploy()
        running = AttemptReport(instance=LIFE, attempt=attempt, state=ExecutionState.RUNNING, at=7)
        finished = outcome_of(attempt, ExecutionState.FINISHED)
        assert await stage.master.attempt_ended(LIFE, finished, running) == (SLOT,)
        [region] = stage.job.graph.details().regions
        assert region.current.timestamps[ExecutionState.RUNNING] == 7

    play(story)


def test_slots_offered_with_the_introduction_are_accepted_or_declined() -> None:
    """Shows POOL-04 and JM-08."""

    async def story(stage: Stage) -> None:
        offer = msgspec.structs.replace(
            stage.introduction(), offered=(SLOT, AllocationId("surplus"))
        )
        for _ in range(2):
            answer = await stage.master.register_task_executor(offer)
            assert answer == Admitted(accepted=(SLOT,))
        await asyncio.sleep(0.1)
        assert len(stage.executor.has) == 1

    play(story)


def test_a_surplus_slot_of_another_executor_is_returned_by_a_call() -> None:
    async def story(stage: Stage) -> None:
        finished = outcome_of(await stage.deploy(), ExecutionState.FINISHED)
        assert await stage.master.attempt_ended(InstanceId("another"), finished, None) == ()
        await asyncio.sleep(1)
        assert stage.executor.freed == [SLOT]

    play(story)
