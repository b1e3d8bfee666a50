"""A real job master with a fake task executor that records its calls."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from builders import build_graph
from stoker.aio.latest import Latest
from stoker.core.errors import NotFound
from stoker.core.graph import RestartPolicy
from stoker.core.ids import AllocationId, AttemptId, Ids, InstanceId, JobId, ResourceId
from stoker.core.states import JobStatus
from stoker.core.values import FencingToken
from stoker.gateways.jobmaster import (
    Admitted,
    HeldAttempt,
    JobMasterGateway,
    TaskExecutorIntroduction,
)
from stoker.gateways.taskexecutor import TaskDeployment
from stoker.ha.memory import MemoryCoordination
from stoker.ha.retrieval import LeaderRetrieval
from stoker.ha.stores.attempts import AttemptStore
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.jobmaster.endpoint import JobMaster
from stoker.jobmaster.execution_graph import ExecutionGraph
from stoker.jobmaster.job import JobDriver, JobMasterServices
from stoker.jobmaster.outputs import DecidedOutputs
from stoker.metrics.registry import MetricRegistry
from stoker.rpc.memory import MemoryNetwork
from stoker.storage.memory import MemoryStorage
from stoker.testing.leadership import seize_leadership
from stoker.testing.simulated_cluster import HEARTBEAT
from stoker.testing.virtual_time import run_virtual, virtual_wall_clock
from unit.fake_parts import JOB, FakeExecutor

SLOT = AllocationId("slot")
GRAPH = build_graph(job_id=JOB)


class RecordingExecutor(FakeExecutor):
    def __init__(self) -> None:
        super().__init__()
        self.has: list[AttemptId] = []
        self.cancelled: list[AttemptId] = []
        self.counted: list[tuple[AllocationId, ...]] = []
        self.freed: list[AllocationId] = []
        self.slot_is_there = True

    def submit_task(self, token: FencingToken, deployment: TaskDeployment) -> None:
        if not self.slot_is_there:
            raise NotFound("no such slot")
        self.has.append(deployment.attempt)

    def cancel_task(self, token: FencingToken, job_id: JobId, attempt: AttemptId) -> None:
        self.cancelled.append(attempt)

    def free_slots(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...], reason: str
    ) -> None:
        self.freed += allocations

    def heartbeat_from_job_master(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AttemptId, ...]:
        self.counted.append(allocations)
        return tuple(self.has)


class Harness:
    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.coordinator = MemoryCoordination().session()
        self.metrics = MetricRegistry()
        self.executor = RecordingExecutor()
        self.retrieval = LeaderRetrieval(self.coordinator, "resource_manager")

    @asynccontextmanager
    async def set_up(self) -> AsyncIterator[None]:
        self.ids = ids = Ids(random.Random(1))
        leadership = await seize_leadership(self.coordinator, component="job", ids=ids)
        rpc = self.network.service("master")
        self.job = JobDriver(
            JobMasterServices(
                rpc=rpc,
                ids=ids,
                wall_clock=virtual_wall_clock(),
                resource_manager=self.retrieval,
                heartbeat=HEARTBEAT,
            ),
            ExecutionGraph(
                GRAPH,
                ids=ids,
                policy=RestartPolicy(strategy="fixed-delay", attempts=5, delay_seconds=1),
                submitted_at=0,
                now=0,
            ),
            leadership=leadership,
            attempts=AttemptStore(leadership),
            outcomes=OutcomeStore(MemoryStorage()),
            decided=DecidedOutputs(MemoryStorage(), GRAPH),
            status=Latest(JobStatus.INITIALIZING),
            metrics=self.metrics.process.group(job_id=GRAPH.job_id, job_name=GRAPH.name),
        )
        master = JobMaster(self.job)
        async with (
            self.job.scope,
            master.beats,
            rpc.running(master) as address,
            self.network.service("executor").running(self.executor),
        ):
            self.address = address
            self.job.act(self.job.graph.start({}, cancel_wanted=False, now=0))
            test = self.network.service("test")
            self.master = await test.connect(address, JobMasterGateway, token=leadership.token)
            yield

    def introduction(
        self, instance: str = "life-1", job_id: JobId = JOB, attempts: tuple[HeldAttempt, ...] = ()
    ) -> TaskExecutorIntroduction:
        return TaskExecutorIntroduction(
            job_id=job_id,
            resource_id=ResourceId("executor"),
            instance=InstanceId(instance),
            address="mem://executor/task_executor",
            attempts=attempts,
        )

    @asynccontextmanager
    async def next_instance(self) -> AsyncIterator[TaskExecutorIntroduction]:
        async with self.network.service("executor-again").running(RecordingExecutor()) as address:
            first = self.introduction("life-2")
            yield msgspec.structs.replace(first, address=address)

    async def deploy(self, instance: str = "life-1") -> AttemptId:
        await self.admit(instance)
        await asyncio.sleep(0.1)
        return self.executor.has[-1]

    async def admit(self, instance: str = "life-1") -> None:
        introduction = msgspec.structs.replace(self.introduction(instance), offered=(SLOT,))
        answer = await self.master.register_task_executor(introduction)
        assert answer == Admitted(accepted=(SLOT,))

    @property
    def failures(self) -> list[str]:
        return [record.failure.error for record in self.job.graph.failures]


def run_scenario(scenario: Callable[[Harness], Awaitable[None]]) -> None:
    async def main() -> None:
        harness = Harness()
        async with harness.set_up():
            await scenario(harness)

    run_virtual(main)
