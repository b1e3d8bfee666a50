"""A real task executor between a fake resource manager and a fake job master."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders import build_graph
from stoker.blob.cache import BlobCache
from stoker.blob.options import BlobOptions
from stoker.blob.transfer import inline
from stoker.core.ids import AllocationId, AttemptId, Ids, InstanceId, RegionId, ResourceId
from stoker.gateways.jobmaster import job_component
from stoker.gateways.taskexecutor import SlotRequest, TaskDeployment, TaskExecutorGateway
from stoker.ha import keys
from stoker.ha.coordinator import Create
from stoker.ha.leadership import Leadership
from stoker.ha.memory import MemoryCoordination
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.rpc.memory import MemoryNetwork
from stoker.storage.memory import MemoryStorage
from stoker.taskexecutor.options import TaskExecutorOptions
from stoker.taskexecutor.run import running_task_executor
from stoker.taskexecutor.services import TaskExecutorServices
from stoker.taskexecutor.slots import SavedSlot
from stoker.taskexecutor.tasks import TaskServices
from stoker.testing.fake_engine import FakeEngine
from stoker.testing.history import History
from stoker.testing.leadership import seize_leadership
from stoker.testing.process_view import ProcessSlots
from stoker.testing.simulated_cluster import HEARTBEAT, RETRY
from stoker.testing.virtual_time import run_virtual, virtual_wall_clock
from unit.fake_parts import JOB, FakeManager, FakeMaster

SLOT = AllocationId("slot")
ATTEMPT = AttemptId("a" * 32)


def deployment(
    seconds: float = 1, attempt: AttemptId = ATTEMPT, region: str = "out"
) -> TaskDeployment:
    graph = build_graph(job_id=JOB, configuration={"fake.seconds": str(seconds)})
    return TaskDeployment(
        graph=graph, region=RegionId(region), attempt=attempt, number=0, allocation=SLOT
    )


@dataclass
class Harness:
    folder: Path
    manager_kind: type[FakeManager] = FakeManager
    options: TaskExecutorOptions = field(default_factory=TaskExecutorOptions)
    saved: dict[int, SavedSlot] = field(default_factory=dict)
    """The saved slots, including those of a previous instance."""

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
        self.manager = self.manager_kind(leadership.token)
        async with AsyncExitStack() as stack:
            await leadership.publish(
                await stack.enter_async_context(self.rpc.running(self.manager))
            )
            await stack.enter_async_context(self.executor_running())
            # Virtual time: long enough for a registration that fails at first.
            await asyncio.sleep(3)
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
        self.blobs = blobs = BlobCache(
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
            slot_store=ProcessSlots(self.saved),
            options=self.options,
            heartbeat=HEARTBEAT,
            registration=RETRY,
        )
        async with blobs, running_task_executor(services):
            yield

    @asynccontextmanager
    async def master_running(
        self, kind: type[FakeMaster] = FakeMaster
    ) -> AsyncIterator[FakeMaster]:
        leadership = await self.lead(job_component(JOB))
        master = kind(leadership.token)
        self.leadership = leadership
        async with self.rpc.running(master) as address:
            await leadership.publish(address)
            yield master

    async def request_slot(self) -> None:
        request = SlotRequest(job_id=JOB, allocation=SLOT, slot=0)
        await self.executor.request_slot(self.token, request)
        await asyncio.sleep(1)

    async def slot_is_taken(self) -> bool:
        """Send a heartbeat; return whether the task executor reports slot 0 as taken by the job."""
        report = await self.executor.heartbeat_from_resource_manager(self.token)
        return report.slots[0].job_id == JOB

    async def submit(self, task: TaskDeployment) -> None:
        await self.executor.submit_task(self.leadership.token, task)


def run_scenario(
    folder: Path, scenario: Callable[[Harness], Awaitable[None]], **more: Any
) -> Harness:
    harnesses: list[Harness] = []

    async def main() -> None:
        harness = Harness(folder, **more)
        harnesses.append(harness)
        async with harness.set_up():
            await scenario(harness)

    run_virtual(main)
    return harnesses[0]
