"""The resource manager's answers, on virtual time over the in-memory network."""

import asyncio

import msgspec
import pytest

from stoker.core.errors import FencingTokenMismatch, NotFound, RecipientUnreachable
from stoker.core.ids import InstanceId, SessionId
from stoker.core.states import JobStatus
from stoker.core.values import FencingToken
from stoker.gateways.resourcemanager import (
    Declined,
    Registered,
    ResourceRequirements,
)
from stoker.testing.virtual_time import run_virtual
from unit.fake_parts import JOB, MASTER, FakeExecutor
from unit.resourcemanager.harness import Harness, run_scenario


def test_a_registered_executor_is_listed_and_gets_slot_requests_for_declared_needs() -> None:
    """The needs may come with the registration of the job master.

    (RM-05, RM-09, RM-13, SM-01, SM-16)
    """

    async def scenario(harness: Harness) -> None:
        assert await harness.gateway.register_task_executor(harness.registration()) == Registered()
        first = ResourceRequirements(job_id=JOB, token=MASTER, slots=1)
        registration = msgspec.structs.replace(harness.master_registration(), requirements=first)
        assert await harness.gateway.register_job_master(registration) == Registered()
        await asyncio.sleep(0.1)
        assert [request.job_id for request in harness.executor.requests] == [JOB]
        [details] = await harness.gateway.task_executors()
        assert (details.slots_total, details.slots_free, details.jobs) == (2, 1, (JOB,))
        overview = await harness.gateway.overview()
        assert (overview.task_executors, overview.slots_total, overview.slots_free) == (1, 2, 1)

    run_scenario(scenario)


def test_registrations_with_stale_tokens_or_without_an_address_are_refused() -> None:
    """Whoever could not be reached may try again; a stale job master may not (RM-06)."""

    async def scenario(harness: Harness) -> None:
        old = await harness.connect(FencingToken(epoch=2, session=SessionId("o" * 32)))
        with pytest.raises(FencingTokenMismatch):
            await old.register_task_executor(harness.registration())
        answer = await harness.gateway.register_task_executor(harness.registration(at="nowhere"))
        assert isinstance(answer, Declined)
        assert not answer.final
        nowhere = msgspec.structs.replace(harness.master_registration(), address="mem://nowhere/x")
        answer = await harness.gateway.register_job_master(nowhere)
        assert isinstance(answer, Declined)
        assert not answer.final
        stale = FencingToken(epoch=2, session=MASTER.session)
        answer = await harness.gateway.register_job_master(harness.master_registration(stale))
        assert isinstance(answer, Declined)
        assert answer.final

    run_scenario(scenario)


def test_a_restarted_executor_replaces_its_previous_instance_and_masters_are_notified() -> None:
    """The previous instance is told so too (RM-10, RM-12)."""

    async def scenario(harness: Harness) -> None:
        await harness.gateway.register_job_master(harness.master_registration())
        await harness.gateway.register_task_executor(harness.registration("life-1"))
        await harness.gateway.register_task_executor(harness.registration("life-2"))
        await asyncio.sleep(0.1)
        assert [each.instance for each in await harness.gateway.task_executors()] == ["life-2"]
        assert harness.master.lost == ["life-1"]
        assert len(harness.executor.disconnected) == 1

    run_scenario(scenario)


def test_a_second_executor_with_the_same_id_is_refused_while_the_first_is_alive() -> None:
    """The refusal names the option that sets the id (RM-11)."""

    async def scenario(harness: Harness) -> None:
        first, second = harness.registration("life-1"), harness.registration("life-2", at="second")
        async with harness.network.service("second").running(FakeExecutor()):
            await harness.gateway.register_task_executor(first)
            answer = await harness.gateway.register_task_executor(second)
            assert isinstance(answer, Declined)
            assert answer.final
            assert "taskmanager.resource-id" in answer.reason
            assert [each.instance for each in await harness.gateway.task_executors()] == ["life-1"]
            assert harness.executor.disconnected == []
            harness.network.crash("executor")
            answer = await harness.gateway.register_task_executor(second)
            assert isinstance(answer, Registered)

    run_scenario(scenario)


def test_registering_again_keeps_the_executor_and_watches_it_once() -> None:
    async def scenario(harness: Harness) -> None:
        for _ in range(5):
            await harness.gateway.register_task_executor(harness.registration())
        await asyncio.sleep(1)
        watches = [task for task in asyncio.all_tasks() if "watch life-1" in task.get_name()]
        assert len(watches) == 1
        assert (await harness.gateway.overview()).slots_total == 2

    run_scenario(scenario)


def test_a_silent_executor_is_removed_and_masters_are_notified() -> None:
    """Silence for the timeout of heartbeats is enough (RM-12)."""

    async def scenario(harness: Harness) -> None:
        await harness.gateway.register_job_master(harness.master_registration())
        await harness.gateway.register_task_executor(harness.registration())
        harness.network.partition("master", "executor")
        await asyncio.sleep(11)
        assert await harness.gateway.task_executors() == []
        assert harness.master.lost == ["life-1"]

    run_scenario(scenario)


def test_an_executor_that_crashes_is_removed_at_once() -> None:
    """Nobody waits for the timeout of heartbeats (HB-04)."""

    async def scenario(harness: Harness) -> None:
        await harness.gateway.register_task_executor(harness.registration())
        await asyncio.sleep(0.1)
        harness.network.crash("executor")
        await asyncio.sleep(0.5)
        assert await harness.gateway.task_executors() == []

    run_scenario(scenario)


def test_a_master_that_was_dropped_gets_an_error_and_its_requirements_are_retained() -> None:
    """No slot is requested for the job before a master registers again (RM-07, JM-02)."""

    async def scenario(harness: Harness) -> None:
        await harness.gateway.register_job_master(harness.master_registration())
        await harness.declare(1)
        harness.network.partition("master", "job")
        await asyncio.sleep(11)
        with pytest.raises(NotFound, match="is not registered"):
            await harness.declare(2)
        reason = await harness.gateway.wait_reason(JOB)
        assert reason is not None
        assert reason.text == (
            "needs 1 more slot; no task executor is registered; the cluster can offer 0 and the "
            "job cannot begin with fewer than 1: start task executors that have them, or ask for "
            "less"
        )
        await harness.gateway.register_task_executor(harness.registration())
        await asyncio.sleep(1)
        assert harness.executor.requests == [], "no job master would use the slot"
        harness.network.heal()
        await harness.gateway.register_job_master(harness.master_registration())
        await harness.declare(1)
        await asyncio.sleep(1)
        assert len(harness.executor.requests) == 1

    run_scenario(scenario)


def test_requirements_are_dropped_when_the_job_ends_and_retained_when_only_its_master_does() -> (
    None
):
    """Only the registered master can report the end (RM-08)."""

    async def scenario(harness: Harness) -> None:
        await harness.gateway.register_job_master(harness.master_registration())
        await harness.declare(1)
        await harness.gateway.job_master_leaves(JOB, MASTER, JobStatus.SUSPENDED)
        assert await harness.gateway.wait_reason(JOB) is not None
        await harness.gateway.register_job_master(harness.master_registration())
        other = FencingToken(epoch=3, session=SessionId("x" * 32))
        await harness.gateway.job_master_leaves(JOB, other, JobStatus.FINISHED)
        assert await harness.gateway.wait_reason(JOB) is not None
        await harness.gateway.job_master_leaves(JOB, MASTER, JobStatus.FINISHED)
        assert await harness.gateway.wait_reason(JOB) is None

    run_scenario(scenario)


def test_slots_that_an_ended_job_had_not_accepted_are_reclaimed() -> None:
    """They are free again (SM-14, X-TM-05)."""

    async def scenario(harness: Harness) -> None:
        await harness.gateway.register_task_executor(harness.registration())
        await harness.gateway.register_job_master(harness.master_registration())
        await harness.declare(1)
        await asyncio.sleep(0.1)
        assert harness.executor.held
        await harness.gateway.job_master_leaves(JOB, MASTER, JobStatus.CANCELED)
        await asyncio.sleep(3)
        assert harness.executor.reclaimed == [JOB]
        assert (await harness.gateway.overview()).slots_free == 2

    run_scenario(scenario)


def test_nothing_is_reclaimed_from_a_job_that_returned_its_slots() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.gateway.register_task_executor(harness.registration())
        await harness.gateway.register_job_master(harness.master_registration())
        await harness.declare(1)
        await asyncio.sleep(0.1)
        await harness.gateway.job_master_leaves(JOB, MASTER, JobStatus.FINISHED)
        harness.executor.held.clear()
        await harness.gateway.slot_freed(InstanceId("life-1"), harness.executor.report())
        await asyncio.sleep(3)
        assert harness.executor.reclaimed == []

    run_scenario(scenario)


def test_a_stopped_resource_manager_does_not_answer() -> None:
    """Its callers notice at once (RM-02, SM-15)."""

    async def main() -> None:
        harness = Harness()
        async with harness.set_up():
            gateway = harness.gateway
        with pytest.raises(RecipientUnreachable):
            await gateway.overview()

    run_virtual(main)
