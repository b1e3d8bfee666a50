"""A resource manager, an executor and a job master on virtual time and an in-memory network."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from stoker.core.ids import Ids, InstanceId, ResourceId, SessionId
from stoker.core.values import FencingToken
from stoker.gateways.resourcemanager import (
    JobMasterRegistration,
    ResourceManagerGateway,
    ResourceRequirements,
    TaskExecutorRegistration,
)
from stoker.heartbeat.options import HeartbeatOptions
from stoker.resourcemanager.endpoint import ResourceManager
from stoker.resourcemanager.options import ResourceManagerOptions
from stoker.resourcemanager.provider import Provider, StandaloneProvider
from stoker.resourcemanager.services import ResourceManagerServices
from stoker.rpc.memory import MemoryNetwork
from stoker.testing.virtual_time import run_virtual, virtual_wall_clock
from unit.fake_parts import JOB, MASTER, FakeExecutor, FakeMaster

TOKEN = FencingToken(epoch=3, session=SessionId("s" * 32))
HEARTBEAT = HeartbeatOptions(interval=timedelta(seconds=2), timeout=timedelta(seconds=10))


class Harness:
    """A resource manager, an executor and a job master, each with its own RPC service."""

    def __init__(self, provider: Provider | None = None, **options: Any) -> None:
        self.network = MemoryNetwork()
        self.executor = FakeExecutor()
        self.master = FakeMaster()
        self.manager = ResourceManager(
            ResourceManagerServices(
                rpc=self.network.service("master"),
                ids=Ids(random.Random(1)),
                wall_clock=virtual_wall_clock(),
                heartbeat=HEARTBEAT,
                options=ResourceManagerOptions(**options),
                provider=provider or StandaloneProvider(),
            ),
            TOKEN,
        )

    @asynccontextmanager
    async def set_up(self) -> AsyncIterator[None]:
        manager = self.manager
        rpc = self.network.find("master")
        assert rpc is not None
        async with (
            manager.scope,
            manager.executor_beats,
            manager.master_beats,
            rpc.running(manager),
            self.network.service("executor").running(self.executor),
            self.network.service("job").running(self.master),
        ):
            self.rpc = self.network.service("test")
            manager.begin()
            self.gateway = await self.connect(TOKEN)
            yield

    async def connect(self, token: FencingToken) -> ResourceManagerGateway:
        return await self.rpc.connect(
            "mem://master/resource_manager", ResourceManagerGateway, token=token
        )

    def registration(
        self, instance: str = "life-1", at: str = "executor", name: str = "executor", **more: Any
    ) -> TaskExecutorRegistration:
        return TaskExecutorRegistration(
            resource_id=ResourceId(name),
            instance=InstanceId(instance),
            address=f"mem://{at}/task_executor",
            report=self.executor.report(),
            **more,
        )

    def master_registration(self, token: FencingToken = MASTER) -> JobMasterRegistration:
        return JobMasterRegistration(job_id=JOB, token=token, address=f"mem://job/job-{JOB}")

    async def declare(self, slots: int, **more: Any) -> None:
        await self.gateway.declare_requirements(
            ResourceRequirements(job_id=JOB, token=MASTER, slots=slots, **more)
        )


def run_scenario(
    scenario: Callable[[Harness], Awaitable[None]], provider: Provider | None = None, **options: Any
) -> None:
    async def main() -> None:
        harness = Harness(provider, **options)
        async with harness.set_up():
            await scenario(harness)

    run_virtual(main)
