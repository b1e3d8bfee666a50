"""How a task executor finds its leaders, and what it does without them."""

import asyncio
import math
from datetime import timedelta
from pathlib import Path

import pytest

from stoker.core.errors import Conflict, FencingTokenMismatch, NotFound, StartupFailed, Unavailable
from stoker.core.ids import AllocationId, InstanceId
from stoker.core.states import ExecutionState
from stoker.gateways.jobmaster import AdmissionAnswer, TaskExecutorIntroduction
from stoker.gateways.resourcemanager import (
    Declined,
    RegistrationAnswer,
    TaskExecutorRegistration,
)
from stoker.gateways.taskexecutor import TaskExecutorGateway
from stoker.taskexecutor.options import TaskExecutorOptions
from unit.fake_parts import JOB, FakeManager, FakeMaster
from unit.taskexecutor.harness import ATTEMPT, SLOT, Harness, deployment, run_scenario


class ManagerThatFailsFirst(FakeManager):
    asked = 0

    def register_task_executor(self, registration: TaskExecutorRegistration) -> RegistrationAnswer:
        self.asked += 1
        if self.asked == 1:
            raise Unavailable("not now")
        return super().register_task_executor(registration)


class ManagerThatRejects(FakeManager):
    def register_task_executor(self, registration: TaskExecutorRegistration) -> RegistrationAnswer:
        super().register_task_executor(registration)
        return Declined(reason="not of this cluster", final=True)


class ManagerThatRefuses(FakeManager):
    def register_task_executor(self, registration: TaskExecutorRegistration) -> RegistrationAnswer:
        super().register_task_executor(registration)
        return Declined(reason="try later", final=False)


class MasterThatFailsFirst(FakeMaster):
    def offer_slots(
        self, instance: InstanceId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AllocationId, ...]:
        accepted = super().offer_slots(instance, allocations)
        if len(self.offered) == 1:
            raise Unavailable("the answer is lost")
        return accepted


def test_a_task_executor_registers_at_the_next_resource_manager(tmp_path: Path) -> None:
    """Calls of the previous resource manager are refused then (TM-02)."""

    async def scenario(harness: Harness) -> None:
        leadership = await harness.lead("resource_manager")
        successor = FakeManager(leadership.token)
        service = harness.network.service("second master")
        async with service.running(successor) as address:
            await leadership.publish(address)
            await asyncio.sleep(2)
            assert len(successor.registrations) == 1
            with pytest.raises(FencingTokenMismatch):
                await harness.executor.heartbeat_from_resource_manager(harness.token)

    run_scenario(tmp_path, scenario)


def test_a_failed_registration_is_repeated_with_the_current_slots(tmp_path: Path) -> None:
    """The first attempt ended in an error (TM-03)."""

    async def scenario(harness: Harness) -> None:
        [registration] = harness.manager.registrations
        assert len(registration.report.slots) == 2

    run_scenario(tmp_path, scenario, manager_kind=ManagerThatFailsFirst)


def test_a_task_executor_that_is_refused_for_too_long_stops(tmp_path: Path) -> None:
    """The error names the option (TM-04)."""

    async def scenario(harness: Harness) -> None:
        await asyncio.sleep(100)
        raise AssertionError("it should have given up")

    patience = TaskExecutorOptions(registration_timeout=timedelta(seconds=60))
    with pytest.raises(StartupFailed, match=r"taskmanager\.registration\.timeout"):
        run_scenario(tmp_path, scenario, manager_kind=ManagerThatRefuses, options=patience)


def test_a_task_executor_refused_after_a_lost_connection_stops_once_it_is_idle(
    tmp_path: Path,
) -> None:
    """It had been registered before (TM-04)."""

    async def scenario(harness: Harness) -> None:
        harness.manager.__class__ = ManagerThatRefuses
        await harness.executor.disconnect_resource_manager(harness.token, "test")
        await asyncio.sleep(100)
        raise AssertionError("it should have given up")

    patience = TaskExecutorOptions(registration_timeout=timedelta(seconds=60))
    with pytest.raises(StartupFailed):
        run_scenario(tmp_path, scenario, options=patience)


def test_tasks_continue_while_the_resource_manager_is_silent(tmp_path: Path) -> None:
    """Meanwhile the task executor registers again (TM-05)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            await harness.request_slot()
            await harness.submit(deployment(seconds=200))
            # The resource manager sends no heartbeats here, so the executor registers again.
            await asyncio.sleep(150)
            assert len(harness.manager.registrations) > 1
            assert master.outcomes == []
            await asyncio.sleep(60)
            assert [each.state for each in master.outcomes] == [ExecutionState.FINISHED]

    run_scenario(tmp_path, scenario)


def test_a_final_rejection_stops_the_task_executor(tmp_path: Path) -> None:
    """The error quotes the reason of the rejection (TM-06)."""

    async def scenario(harness: Harness) -> None:
        await asyncio.sleep(10)
        raise AssertionError("it should have ended")

    with pytest.raises(Conflict, match="not of this cluster"):
        run_scenario(tmp_path, scenario, manager_kind=ManagerThatRejects)


def test_slots_are_offered_again_when_the_answer_was_lost(tmp_path: Path) -> None:
    """The repeated offer is accepted (TM-10)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running(MasterThatFailsFirst) as master:
            await harness.request_slot()
            await asyncio.sleep(2)
            assert master.offered == [SLOT, SLOT]
            assert await harness.slot_is_taken()

    run_scenario(tmp_path, scenario)


class HastyMaster(FakeMaster):
    """Sends a task before it answers the registration request with the number `number`."""

    executor: TaskExecutorGateway
    number = 1
    task = deployment()

    async def register_task_executor(  # type: ignore[override]
        self, introduction: TaskExecutorIntroduction
    ) -> AdmissionAnswer:
        answer = super().register_task_executor(introduction)
        if len(self.introductions) == self.number:
            assert self.token is not None
            await self.executor.submit_task(self.token, self.task)
        return answer


class AnswersAtLast(HastyMaster):
    number = 3
    task = deployment(seconds=500)
    answered: float = 3
    """Number of the first request that is answered; the answers to earlier ones are lost."""

    async def register_task_executor(  # type: ignore[override]
        self, introduction: TaskExecutorIntroduction
    ) -> AdmissionAnswer:
        answer = await super().register_task_executor(introduction)
        if len(self.introductions) < self.answered:
            await asyncio.sleep(3)
            raise Unavailable("the answer is lost")
        return answer


class NeverAnswers(AnswersAtLast):
    answered = math.inf


def test_a_task_that_arrives_before_the_answer_to_the_offer_is_accepted(tmp_path: Path) -> None:
    """The task shows that the job master has accepted the slot (X-TM-02)."""

    async def scenario(harness: Harness) -> None:
        HastyMaster.executor = harness.executor
        async with harness.master_running(HastyMaster) as master:
            await harness.request_slot()
            await asyncio.sleep(2)
            assert master.offered == [SLOT], "the slot was accepted, and need not be offered again"
            assert master.renewals == [], "the lease has just started"
            assert [each.state for each in master.outcomes] == [ExecutionState.FINISHED]

    run_scenario(tmp_path, scenario)


def test_a_task_that_precedes_a_slow_answer_gets_the_new_lease_at_once(
    tmp_path: Path,
) -> None:
    async def scenario(harness: Harness) -> None:
        AnswersAtLast.executor = harness.executor
        async with harness.master_running(AnswersAtLast) as master:
            await harness.request_slot()
            await asyncio.sleep(8)
            assert master.renewals == [(ATTEMPT,)]

    run_scenario(tmp_path, scenario)


def test_a_task_that_precedes_the_answer_runs_under_the_lease_of_the_first_request(
    tmp_path: Path,
) -> None:
    """A later request may not have reached the master, which counts from an earlier one."""

    async def scenario(harness: Harness) -> None:
        NeverAnswers.executor = harness.executor
        async with harness.master_running(NeverAnswers) as master:
            began = asyncio.get_running_loop().time()
            await harness.request_slot()
            await asyncio.sleep(100)
            assert len(master.introductions) > 3
            [span] = harness.history.attempts
            assert span.ended is not None
            assert span.ended - began <= 60

    run_scenario(tmp_path, scenario)


def test_slots_that_the_job_master_does_not_list_are_freed(tmp_path: Path) -> None:
    """A slot that was offered just now is not (TM-15)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running():
            await harness.request_slot()
            beat = harness.executor.heartbeat_from_job_master
            await beat(harness.leadership.token, JOB, ())
            assert await harness.slot_is_taken(), (
                "young: the master may have counted before it accepted the slot"
            )
            await asyncio.sleep(12)
            await beat(harness.leadership.token, JOB, ())
            assert not await harness.slot_is_taken()

    run_scenario(tmp_path, scenario)


def test_reclaiming_frees_reserved_slots_and_not_those_in_use(tmp_path: Path) -> None:
    """A slot whose job master is away is in use while a task runs in it (X-TM-05)."""

    async def scenario(harness: Harness) -> None:
        await harness.request_slot()
        await harness.executor.free_inactive_slots(harness.token, JOB)
        assert not await harness.slot_is_taken(), "no job master had accepted the slot"
        async with harness.master_running():
            await harness.request_slot()
            await harness.executor.free_inactive_slots(harness.token, JOB)
            assert await harness.slot_is_taken(), "the job master has accepted the slot"
            await harness.submit(deployment(seconds=100))
        await asyncio.sleep(2)
        await harness.executor.free_inactive_slots(harness.token, JOB)
        assert await harness.slot_is_taken(), "the job master is away, but a task runs in the slot"

    run_scenario(tmp_path, scenario)


def test_freeing_the_last_slot_removes_everything_of_the_job(tmp_path: Path) -> None:
    """Calls about the job are refused then (TM-18)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running():
            await harness.request_slot()
            token = harness.leadership.token
            await harness.executor.free_slots(token, JOB, (SLOT,), "test")
            assert not await harness.slot_is_taken()
            with pytest.raises(NotFound, match="nothing of job"):
                await harness.executor.heartbeat_from_job_master(token, JOB, ())

    run_scenario(tmp_path, scenario)
