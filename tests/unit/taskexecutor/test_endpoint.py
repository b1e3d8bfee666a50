"""A real task executor between a resource manager and a job master that note everything (TM-*)."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker.blob.cache import BlobCache
from stoker.blob.content import inline
from stoker.blob.options import BlobOptions
from stoker.core.errors import FencingTokenMismatch, NotFound, Unavailable
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, Sink, Source
from stoker.core.ids import AllocationId, AttemptId, Ids, InstanceId, RegionId, ResourceId
from stoker.core.states import ExecutionState
from stoker.gateways.jobmaster import job_component
from stoker.gateways.resourcemanager import Declined
from stoker.gateways.taskexecutor import SlotRequest, TaskDeployment, TaskExecutorGateway
from stoker.ha import keys
from stoker.ha.coordinator import Create
from stoker.ha.leadership import Leadership
from stoker.ha.memory import MemoryCoordination
from stoker.ha.stores.outcomes import OutcomeStore
from stoker.rpc.memory import MemoryNetwork
from stoker.storage.memory import MemoryStorage
from stoker.taskexecutor.endpoint import TaskExecutorServices
from stoker.taskexecutor.run import running_task_executor
from stoker.taskexecutor.tasks import TaskServices
from stoker.testing.fake_engine import FakeEngine
from stoker.testing.history import History
from stoker.testing.leadership import seize_leadership
from stoker.testing.simulated_cluster import HEARTBEAT, RETRY
from stoker.testing.virtual_time import run_virtual, virtual_wall_clock
from unit.fake_parts import JOB, FakeManager, FakeMaster

SLOT = AllocationId("slot")
ATTEMPT = AttemptId("a" * 32)


def deployment(
    seconds: float = 1, attempt: AttemptId = ATTEMPT, region: str = "out"
) -> TaskDeployment:
    graph = JobGraph(
        job_id=JOB,
        name="test",
        vertices=(
            Source(name="numbers", read=FormatRead(format="parquet", path="/in")),
            Sink(name="out", input="numbers", write=FormatWrite(format="noop")),
        ),
        configuration={"fake.seconds": str(seconds)},
    )
    return TaskDeployment(
        graph=graph, region=RegionId(region), attempt=attempt, number=0, allocation=SLOT
    )


@dataclass
class Stage:
    folder: Path

    def __post_init__(self) -> None:
        self.network = MemoryNetwork()
        self.coordination = MemoryCoordination(session_timeout=4)
        self.storage = MemoryStorage()
        self.history = History()
        self.ids = Ids(random.Random(1))
        self.masters = self.coordination.session()

    @asynccontextmanager
    async def set_up(self) -> AsyncIterator[None]:
        self.rpc = self.network.service("master")
        leadership = await self.lead("resource_manager")
        self.manager = FakeManager(leadership.token)
        async with AsyncExitStack() as stack:
            await leadership.publish(
                await stack.enter_async_context(self.rpc.running(self.manager))
            )
            await stack.enter_async_context(self.executor_running())
            await asyncio.sleep(0.1)
            self.token = leadership.token
            address = self.manager.registrations[0].address
            self.executor = await self.rpc.connect(address, TaskExecutorGateway)
            yield

    async def lead(self, component: str) -> Leadership:
        if await self.masters.read(keys.ELECTION) is None:
            await self.masters.commit([Create(keys.ELECTION, b"somebody", ephemeral=True)])
        return await seize_leadership(self.masters, component=component, ids=self.ids)

    @asynccontextmanager
    async def executor_running(self) -> AsyncIterator[None]:
        wall_clock = virtual_wall_clock()
        blobs = BlobCache(
            self.folder / "blobs", BlobOptions(), storage=self.storage, off_loop=inline
        )
        services = TaskExecutorServices(
            rpc=self.network.service("executor"),
            coordinator=self.coordination.session(),
            tasks=TaskServices(
                engine=FakeEngine("executor", self.history, wall_clock),
                blobs=blobs,
                storage=self.storage,
                outcomes=OutcomeStore(self.storage),
                wall_clock=wall_clock,
                work_dir=self.folder,
                log_dir=self.folder / "log",
            ),
            resource_id=ResourceId("executor"),
            instance=InstanceId("life"),
            heartbeat=HEARTBEAT,
            registration=RETRY,
        )
        async with blobs, running_task_executor(services):
            yield

    @asynccontextmanager
    async def master_running(self) -> AsyncIterator[FakeMaster]:
        leadership = await self.lead(job_component(JOB))
        master = FakeMaster(leadership.token)
        self.leadership = leadership
        async with self.rpc.running(master) as address:
            await leadership.publish(address)
            yield master

    async def request_slot(self) -> None:
        request = SlotRequest(job_id=JOB, allocation=SLOT, slot=0)
        await self.executor.request_slot(self.token, request)
        await asyncio.sleep(1)

    async def beat(self) -> bool:
        """Whether slot 0 is taken, as the resource manager is told."""
        report = await self.executor.heartbeat_from_resource_manager(self.token)
        return report.slots[0].job_id == JOB

    async def submit(self, task: TaskDeployment) -> None:
        await self.executor.submit_task(self.leadership.token, task)


def play(folder: Path, story: Callable[[Stage], Awaitable[None]]) -> Stage:
    stages: list[Stage] = []

    async def main() -> None:
        stage = Stage(folder)
        stages.append(stage)
        async with stage.set_up():
            await story(stage)

    run_virtual(main)
    return stages[0]


def test_it_registers_with_its_slots_and_leaves_when_it_stops(tmp_path: Path) -> None:
    """TM-01, TM-16"""

    async def story(stage: Stage) -> None:
        [registration] = stage.manager.registrations
        assert len(registration.report.slots) == 2
        assert registration.address.endswith("-life"), "an address names one life"

    assert play(tmp_path, story).manager.left == ["life"]


def test_requests_of_a_manager_at_which_it_is_not_registered_are_refused(tmp_path: Path) -> None:
    """TM-07"""

    async def story(stage: Stage) -> None:
        other = (await stage.lead("other")).token
        request = SlotRequest(job_id=JOB, allocation=SLOT, slot=0)
        with pytest.raises(FencingTokenMismatch):
            await stage.executor.request_slot(other, request)

    play(tmp_path, story)


def test_an_accepted_slot_runs_a_task_and_its_outcome_is_told_and_on_record(tmp_path: Path) -> None:
    """TM-08, TM-09, TM-17"""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            assert master.offered == [SLOT]
            await stage.submit(deployment())
            token = stage.leadership.token
            beat = stage.executor.heartbeat_from_job_master
            assert await beat(token, JOB, (SLOT,)) == (ATTEMPT,)
            await asyncio.sleep(2)
            assert [each.state for each in master.outcomes] == [ExecutionState.FINISHED]
            assert await beat(token, JOB, (SLOT,)) == ()
            record = await OutcomeStore(stage.storage).read(JOB, RegionId("out"), ATTEMPT)
            assert record == master.outcomes[0]

    play(tmp_path, story)


def test_a_declined_slot_is_freed_and_reported_at_once(tmp_path: Path) -> None:
    """TM-09"""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            master.accepts = False
            await stage.request_slot()
            assert not await stage.beat()
            assert stage.manager.reports[-1].slots[0].job_id is None

    play(tmp_path, story)


def test_a_slot_that_no_master_takes_is_freed_in_time(tmp_path: Path) -> None:
    """TM-11"""

    async def story(stage: Stage) -> None:
        await stage.request_slot()
        await asyncio.sleep(8)
        assert await stage.beat()
        await asyncio.sleep(3)
        assert not await stage.beat()

    play(tmp_path, story)


def test_a_deployment_is_refused_for_another_slot_or_another_master(tmp_path: Path) -> None:
    """TM-19"""

    async def story(stage: Stage) -> None:
        async with stage.master_running():
            with pytest.raises(NotFound, match="nothing of job"):
                await stage.submit(deployment())
            await stage.request_slot()
            stranger = (await stage.lead("other")).token
            late = stage.leadership.token
            await stage.submit(deployment())
            await stage.executor.cancel_task(stranger, JOB, ATTEMPT)
            with pytest.raises(FencingTokenMismatch):
                await stage.executor.submit_task(late, deployment(attempt=AttemptId("b" * 32)))

    play(tmp_path, story)


def test_the_same_deployment_again_runs_once_also_when_it_comes_late(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            await stage.submit(deployment())
            await stage.submit(deployment())
            with pytest.raises(Unavailable, match="cannot run a task now"):
                await stage.submit(deployment(attempt=AttemptId("b" * 32)))
            await asyncio.sleep(2)
            assert len(master.outcomes) == 1
            await stage.submit(deployment())
            await stage.executor.cancel_task(stage.leadership.token, JOB, AttemptId("c" * 32))
            await stage.submit(deployment(attempt=AttemptId("c" * 32)))
            await asyncio.sleep(2)

    assert len(play(tmp_path, story).history.attempts) == 1


def test_a_cancelled_task_tells_its_end_and_a_second_cancel_is_harmless(tmp_path: Path) -> None:
    """TM-20"""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            await stage.submit(deployment(seconds=100))
            await asyncio.sleep(1)
            for _ in range(2):
                await stage.executor.cancel_task(stage.leadership.token, JOB, ATTEMPT)
            await asyncio.sleep(1)
            assert [each.state for each in master.outcomes] == [ExecutionState.CANCELED]

    play(tmp_path, story)


def test_an_attempt_that_its_master_does_not_know_is_cancelled(tmp_path: Path) -> None:
    """JM-14"""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            master.knows = False
            await stage.submit(deployment(seconds=100))
            await asyncio.sleep(2)
            assert [each.state for each in master.outcomes] == [ExecutionState.CANCELED]

    play(tmp_path, story)


def test_it_keeps_its_attempt_when_the_master_goes_and_brings_it_to_the_next(
    tmp_path: Path,
) -> None:
    """TM-12 as this design has it, TM-13"""

    async def story(stage: Stage) -> None:
        async with stage.master_running():
            await stage.request_slot()
            await stage.submit(deployment(seconds=30))
            await asyncio.sleep(1)
        await asyncio.sleep(15)
        async with stage.master_running() as successor:
            await asyncio.sleep(2)
            [introduction] = successor.introductions
            assert [each.attempt for each in introduction.attempts] == [ATTEMPT]
            await asyncio.sleep(20)
            assert [each.state for each in successor.outcomes] == [ExecutionState.FINISHED]

    play(tmp_path, story)


def test_a_master_that_rejects_it_for_good_gets_nothing_more(tmp_path: Path) -> None:
    """TM-14"""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            master.answer = Declined(reason="wrong job", final=True)
            await stage.request_slot()
            assert not await stage.beat()

    play(tmp_path, story)


def test_a_lease_that_is_not_renewed_ends_the_attempt_in_time(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            master.renews = False
            await stage.submit(deployment(seconds=500))
            await asyncio.sleep(53)
            assert stage.history.attempts[0].ended is None
            await asyncio.sleep(7)
            ended = stage.history.attempts[0].ended
            assert ended is not None
            assert ended <= 60, "gone before a master could think of replacing it"

    play(tmp_path, story)


def test_an_attempt_begins_under_a_lease_that_was_asked_for_not_one_of_its_own(
    tmp_path: Path,
) -> None:
    """A deployment that was long on its way must not run longer than its master knows."""

    async def story(stage: Stage) -> None:
        async with stage.master_running():
            await stage.request_slot()
            await asyncio.sleep(13)
            began = asyncio.get_running_loop().time()
            await stage.submit(deployment(seconds=500))
            stage.network.partition("executor", "master")
            await asyncio.sleep(100)
            span = stage.history.attempts[0]
            assert span.ended is not None
            assert span.ended - began < 60 - 13

    play(tmp_path, story)


def test_an_outcome_is_told_only_when_it_is_on_record(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            await stage.submit(deployment())
            await asyncio.sleep(0.5)
            stage.storage.go_away()
            await asyncio.sleep(10)
            assert master.outcomes == []
            stage.storage.come_back()
            await asyncio.sleep(2)
            assert len(master.outcomes) == 1

    play(tmp_path, story)


def test_one_bad_task_fails_alone(tmp_path: Path) -> None:
    """Design invariant 7: whatever it raises, the task executor lives on."""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            await stage.submit(deployment(region="unheard of"))
            await asyncio.sleep(2)
            assert [each.state for each in master.outcomes] == [ExecutionState.FAILED]
            assert await stage.beat()

    play(tmp_path, story)


def test_what_it_runs_has_ended_before_it_stops_answering(tmp_path: Path) -> None:
    """Who finds nobody at its address takes its attempts for dead."""

    async def story(stage: Stage) -> None:
        async with stage.master_running():
            await stage.request_slot()
            await stage.submit(deployment(seconds=500))
            await asyncio.sleep(1)

    stage = play(tmp_path, story)
    assert stage.history.attempts[0].ended is not None


def test_it_registers_again_after_a_disconnect_and_at_the_next_leader(tmp_path: Path) -> None:
    """TM-02, TM-05"""

    async def story(stage: Stage) -> None:
        await stage.executor.disconnect_resource_manager(stage.token, "test")
        await asyncio.sleep(2)
        assert len(stage.manager.registrations) == 2

    play(tmp_path, story)
