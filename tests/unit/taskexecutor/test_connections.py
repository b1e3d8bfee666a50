"""How a task executor finds its leaders, and what it does when they are gone."""

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
from unit.taskexecutor.stage import ATTEMPT, SLOT, Stage, deployment, play


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
    """Shows TM-02."""

    async def story(stage: Stage) -> None:
        leadership = await stage.lead("resource_manager")
        successor = FakeManager(leadership.token)
        service = stage.network.service("second master")
        async with service.running(successor) as address:
            await leadership.publish(address)
            await asyncio.sleep(2)
            assert len(successor.registrations) == 1
            with pytest.raises(FencingTokenMismatch):
                await stage.executor.heartbeat_from_resource_manager(stage.token)

    play(tmp_path, story)


def test_a_failed_registration_is_repeated_with_the_current_slots(tmp_path: Path) -> None:
    """Shows TM-03."""

    async def story(stage: Stage) -> None:
        [registration] = stage.manager.registrations
        assert len(registration.report.slots) == 2

    play(tmp_path, story, manager_kind=ManagerThatFailsFirst)


def test_a_task_executor_that_is_refused_for_too_long_stops(tmp_path: Path) -> None:
    """Shows TM-04."""

    async def story(stage: Stage) -> None:
        await asyncio.sleep(100)
        raise AssertionError("it should have given up")

    patience = TaskExecutorOptions(registration_timeout=timedelta(seconds=60))
    with pytest.raises(StartupFailed, match=r"taskmanager\.registration\.timeout"):
        play(tmp_path, story, manager_kind=ManagerThatRefuses, options=patience)


def test_a_task_executor_refused_after_a_lost_connection_stops_once_it_is_idle(
    tmp_path: Path,
) -> None:
    """Shows TM-04."""

    async def story(stage: Stage) -> None:
        stage.manager.__class__ = ManagerThatRefuses
        await stage.executor.disconnect_resource_manager(stage.token, "test")
        await asyncio.sleep(100)
        raise AssertionError("it should have given up")

    patience = TaskExecutorOptions(registration_timeout=timedelta(seconds=60))
    with pytest.raises(StartupFailed):
        play(tmp_path, story, options=patience)


def test_tasks_continue_while_the_resource_manager_is_silent(tmp_path: Path) -> None:
    """Shows TM-05."""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            await stage.submit(deployment(seconds=200))
            # Nobody beats here: it counts as silent, and the executor registers again.
            await asyncio.sleep(150)
            assert len(stage.manager.registrations) > 1
            assert master.outcomes == []
            await asyncio.sleep(60)
            assert [each.state for each in master.outcomes] == [ExecutionState.FINISHED]

    play(tmp_path, story)


def test_a_final_rejection_stops_the_task_executor(tmp_path: Path) -> None:
    """Shows TM-06."""

    async def story(stage: Stage) -> None:
        await asyncio.sleep(10)
        raise AssertionError("it should have ended")

    with pytest.raises(Conflict, match="not of this cluster"):
        play(tmp_path, story, manager_kind=ManagerThatRejects)


def test_slots_are_offered_again_when_the_answer_was_lost(tmp_path: Path) -> None:
    """Shows TM-10."""

    async def story(stage: Stage) -> None:
        async with stage.master_running(MasterThatFailsFirst) as master:
            await stage.request_slot()
            await asyncio.sleep(2)
            assert master.offered == [SLOT, SLOT]
            assert await stage.beat()

    play(tmp_path, story)


class HastyMaster(FakeMaster):
    """Sends a task before it answers the request with this number."""

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
    """The first request that is answered; the answers to earlier ones are lost."""

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
    """Shows X-TM-02."""

    async def story(stage: Stage) -> None:
        HastyMaster.executor = stage.executor
        async with stage.master_running(HastyMaster) as master:
            await stage.request_slot()
            await asyncio.sleep(2)
            assert master.offered == [SLOT], "it was taken, and need not be offered again"
            assert master.renewals == [], "and its lease has just started"
            assert [each.state for each in master.outcomes] == [ExecutionState.FINISHED]

    play(tmp_path, story)


def test_a_task_that_precedes_a_slow_answer_gets_the_new_lease_at_once(
    tmp_path: Path,
) -> None:
    async def story(stage: Stage) -> None:
        AnswersAtLast.executor = stage.executor
        async with stage.master_running(AnswersAtLast) as master:
            await stage.request_slot()
            await asyncio.sleep(8)
            assert master.renewals == [(ATTEMPT,)]

    play(tmp_path, story)


def test_a_task_that_precedes_the_answer_runs_under_the_lease_of_the_first_request(
    tmp_path: Path,
) -> None:
    """A later request may not have reached the master, which counts from an earlier one."""

    async def story(stage: Stage) -> None:
        NeverAnswers.executor = stage.executor
        async with stage.master_running(NeverAnswers) as master:
            began = asyncio.get_running_loop().time()
            await stage.request_slot()
            await asyncio.sleep(100)
            assert len(master.introductions) > 3
            [span] = stage.history.attempts
            assert span.ended is not None
            assert span.ended - began <= 60

    play(tmp_path, story)


def test_slots_that_the_job_master_does_not_list_are_freed(tmp_path: Path) -> None:
    """Shows TM-15."""

    async def story(stage: Stage) -> None:
        async with stage.master_running():
            await stage.request_slot()
            beat = stage.executor.heartbeat_from_job_master
            await beat(stage.leadership.token, JOB, ())
            assert await stage.beat(), "too young: the master may have counted before it took it"
            await asyncio.sleep(12)
            await beat(stage.leadership.token, JOB, ())
            assert not await stage.beat()

    play(tmp_path, story)


def test_reclaiming_frees_reserved_slots_and_not_those_in_use(tmp_path: Path) -> None:
    """Shows X-TM-05."""

    async def story(stage: Stage) -> None:
        await stage.request_slot()
        await stage.executor.free_inactive_slots(stage.token, JOB)
        assert not await stage.beat(), "nobody had taken it"
        async with stage.master_running():
            await stage.request_slot()
            await stage.executor.free_inactive_slots(stage.token, JOB)
            assert await stage.beat(), "its master has it"
            await stage.submit(deployment(seconds=100))
        await asyncio.sleep(2)
        await stage.executor.free_inactive_slots(stage.token, JOB)
        assert await stage.beat(), "without its master for the moment, but something runs in it"

    play(tmp_path, story)


def test_freeing_the_last_slot_removes_everything_of_the_job(tmp_path: Path) -> None:
    """Shows TM-18."""

    async def story(stage: Stage) -> None:
        async with stage.master_running():
            await stage.request_slot()
            token = stage.leadership.token
            await stage.executor.free_slots(token, JOB, (SLOT,), "test")
            assert not await stage.beat()
            with pytest.raises(NotFound, match="nothing of job"):
                await stage.executor.heartbeat_from_job_master(token, JOB, ())

    play(tmp_path, story)
