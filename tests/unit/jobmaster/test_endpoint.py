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
from unit.jobmaster.harness import JOB, SLOT, Harness, run_scenario

LIFE = InstanceId("life-1")


def outcome_of(
    attempt: AttemptId, state: ExecutionState, failure: Failure | None = None
) -> AttemptOutcome:
    return AttemptOutcome(
        job_id=JOB, region=RegionId("out"), attempt=attempt, state=state, at=1, failure=failure
    )


def test_an_executor_that_names_another_job_is_declined_permanently() -> None:
    """The executor need not ask again (JM-06)."""

    async def scenario(harness: Harness) -> None:
        wrong = harness.introduction(job_id=JobId("f" * 32))
        answer = await harness.master.register_task_executor(wrong)
        assert isinstance(answer, Declined)
        assert answer.final

    run_scenario(scenario)


def test_slots_of_an_executor_that_is_not_registered_are_refused() -> None:
    """The refusal is an error, not an answer that declines each slot (JM-08)."""

    async def scenario(harness: Harness) -> None:
        with pytest.raises(NotFound, match="is not registered"):
            await harness.master.offer_slots(InstanceId("unknown"), (SLOT,))

    run_scenario(scenario)


def test_a_repeated_registration_changes_nothing_and_a_new_instance_replaces_the_old() -> None:
    """The attempts of the old instance are lost (JM-07)."""

    async def scenario(harness: Harness) -> None:
        first = await harness.deploy()
        await harness.master.register_task_executor(harness.introduction())
        await asyncio.sleep(1)
        assert harness.failures == []
        harness.network.crash("executor")
        async with harness.next_instance() as second:
            await harness.master.register_task_executor(second)
            await asyncio.sleep(10)
            assert harness.failures == ["TaskExecutorLost"]
            assert harness.job.graph.attempt(first) is None, "another attempt is the current one"

    run_scenario(scenario)


def test_a_previous_instance_that_still_answers_is_replaced_when_its_lease_has_run_out() -> None:
    """A new process does not prove the death of the old one (JM-07, design invariant 3)."""

    async def scenario(harness: Harness) -> None:
        await harness.deploy()
        lease = harness.job.services.lease
        async with harness.next_instance() as second:
            await harness.master.register_task_executor(second)
            await asyncio.sleep(lease.duration.total_seconds() - 1)
            assert harness.failures == []
            await asyncio.sleep(lease.margin.total_seconds() + 2)
            assert harness.failures == ["TaskExecutorLost"]

    run_scenario(scenario)


def test_heartbeats_list_the_slots_that_the_job_holds_at_the_executor() -> None:
    """The executor compares the list with its own (JM-03, JM-10)."""

    async def scenario(harness: Harness) -> None:
        await harness.deploy()
        await asyncio.sleep(5)
        assert harness.executor.counted[-1] == (SLOT,)

    run_scenario(scenario)


def test_a_missing_attempt_is_cancelled_first_and_then_failed() -> None:
    """It may still run, although the executor does not list it (JM-11)."""

    async def scenario(harness: Harness) -> None:
        attempt = await harness.deploy()
        harness.executor.has.clear()
        await asyncio.sleep(2.5)
        assert harness.executor.cancelled == [attempt]
        assert harness.failures == ["AttemptLost"]

    run_scenario(scenario)


def test_an_introduction_overtaken_by_a_deployment_fails_no_attempt() -> None:
    """The list of attempts in the introduction is older than the attempt (JM-11)."""

    async def scenario(harness: Harness) -> None:
        await harness.deploy()
        await harness.master.register_task_executor(harness.introduction(attempts=()))
        await asyncio.sleep(5)
        assert harness.failures == []
        assert harness.executor.cancelled == []

    run_scenario(scenario)


def test_an_unknown_attempt_is_cancelled() -> None:
    """A task executor names it when it registers (JM-11)."""

    async def scenario(harness: Harness) -> None:
        unknown = HeldAttempt(
            region=RegionId("out"),
            attempt=AttemptId("f" * 32),
            number=0,
            allocation=SLOT,
            state=ExecutionState.RUNNING,
        )
        await harness.master.register_task_executor(harness.introduction(attempts=(unknown,)))
        await asyncio.sleep(0.1)
        assert harness.executor.cancelled == [unknown.attempt]

    run_scenario(scenario)


def test_a_deployment_to_a_freed_slot_is_not_retried_and_costs_no_restart() -> None:
    async def scenario(harness: Harness) -> None:
        harness.executor.slot_is_there = False
        await harness.admit()
        await asyncio.sleep(5)
        assert harness.failures == []
        assert harness.job.slot_needs.value == (1, 0)

    run_scenario(scenario)


def test_a_lost_deployment_is_sent_again() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.master.register_task_executor(harness.introduction())
        await asyncio.sleep(0.1)
        harness.network.partition("master", "executor")
        await harness.master.offer_slots(LIFE, (SLOT,))
        await asyncio.sleep(5)
        harness.network.heal()
        await asyncio.sleep(8)
        assert len(harness.executor.has) == 1
        assert harness.failures == []

    run_scenario(scenario)


def test_attempts_of_a_silent_executor_are_replaced_only_after_the_last_acknowledged_lease() -> (
    None
):
    """This holds also if the executor returned in between and renewed its leases (JM-04, JM-03)."""

    async def scenario(harness: Harness) -> None:
        await harness.deploy()
        await asyncio.sleep(20)
        harness.network.partition("master", "executor")
        await asyncio.sleep(15)
        harness.network.heal()
        await harness.master.register_task_executor(harness.introduction())
        renewed = asyncio.get_running_loop().time()
        harness.network.partition("master", "executor")
        await asyncio.sleep(renewed + 64 - asyncio.get_running_loop().time())
        assert harness.failures == []
        await asyncio.sleep(2)
        assert harness.failures == ["TaskExecutorLost"]

    run_scenario(scenario)


@pytest.mark.parametrize(("labels", "restarts"), [({"cause": COLLATERAL}, 0), ({}, 1)])
def test_an_attempt_ended_because_of_another_job_is_retried_without_counting_a_restart(
    labels: dict[str, str], restarts: int
) -> None:
    async def scenario(harness: Harness) -> None:
        attempt = await harness.deploy()
        failure = Failure(error="SparkServerDied", message="it was killed", labels=labels)
        harness.job.ended(outcome_of(attempt, ExecutionState.FAILED, failure))
        await asyncio.sleep(3)
        assert len(harness.executor.has) == 2
        assert harness.job.graph.restarts == restarts
        assert harness.failures == ["SparkServerDied"], "the history lists every failure"

    run_scenario(scenario)


def test_a_surplus_slot_is_returned_in_the_answer_to_its_own_executor() -> None:
    async def scenario(harness: Harness) -> None:
        finished = outcome_of(await harness.deploy(), ExecutionState.FINISHED)
        assert await harness.master.attempt_ended(LIFE, finished, None) == (SLOT,)
        assert await harness.master.attempt_ended(LIFE, finished, None) == ()
        await asyncio.sleep(1)
        assert harness.executor.freed == []

    run_scenario(scenario)


def test_a_state_reported_with_the_outcome_keeps_its_own_timestamp() -> None:
    async def scenario(harness: Harness) -> None:
        attempt = await harness.deploy()
        running = AttemptReport(instance=LIFE, attempt=attempt, state=ExecutionState.RUNNING, at=7)
        finished = outcome_of(attempt, ExecutionState.FINISHED)
        assert await harness.master.attempt_ended(LIFE, finished, running) == (SLOT,)
        [region] = harness.job.graph.details().regions
        assert region.current.timestamps[ExecutionState.RUNNING] == 7

    run_scenario(scenario)


def test_slots_offered_with_the_introduction_are_accepted_or_declined() -> None:
    """A repeated introduction gets the same answer (POOL-04, JM-08)."""

    async def scenario(harness: Harness) -> None:
        offer = msgspec.structs.replace(
            harness.introduction(), offered=(SLOT, AllocationId("surplus"))
        )
        for _ in range(2):
            answer = await harness.master.register_task_executor(offer)
            assert answer == Admitted(accepted=(SLOT,))
        await asyncio.sleep(0.1)
        assert len(harness.executor.has) == 1

    run_scenario(scenario)


def test_a_surplus_slot_of_another_executor_is_returned_by_a_call() -> None:
    async def scenario(harness: Harness) -> None:
        finished = outcome_of(await harness.deploy(), ExecutionState.FINISHED)
        assert await harness.master.attempt_ended(InstanceId("another"), finished, None) == ()
        await asyncio.sleep(1)
        assert harness.executor.freed == [SLOT]

    run_scenario(scenario)
