"""What a job master declares to the resource manager, and when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stoker.core.errors import Unavailable
from stoker.core.ids import AllocationId, InstanceId
from stoker.core.states import ExecutionState
from stoker.core.values import FencingToken
from stoker.gateways.resourcemanager import (
    JobMasterRegistration,
    Registered,
    RegistrationAnswer,
    ResourceRequirements,
)
from stoker.ha import keys
from stoker.ha.coordinator import Create
from stoker.ha.publication import LeaderPublication
from stoker.jobmaster.resource_manager_link import keep_registered
from unit.fake_parts import FakeManager
from unit.jobmaster.harness import SLOT, Harness, run_scenario


class RecordingManager(FakeManager):
    """Refuses the first `refusals` declarations and records the others."""

    def __init__(self, token: FencingToken, refusals: int = 0) -> None:
        super().__init__(token)
        self.refusals = refusals
        self.declared: list[tuple[int, int]] = []

    def register_job_master(self, registration: JobMasterRegistration) -> RegistrationAnswer:
        assert registration.requirements is not None
        self.declare_requirements(registration.requirements)
        return Registered()

    def declare_requirements(self, requirements: ResourceRequirements) -> None:
        if self.refusals > 0:
            self.refusals -= 1
            raise Unavailable("not now")
        self.declared.append((requirements.slots, requirements.held))


@asynccontextmanager
async def manager_of(harness: Harness, refusals: int = 0) -> AsyncIterator[RecordingManager]:
    """A resource manager that leads in the same process, under the same grant."""
    grant = harness.job.leadership.grant
    await harness.coordinator.commit([Create(keys.ELECTION, b"somebody", ephemeral=True)])
    token = FencingToken(epoch=grant.epoch, session=harness.ids.session())
    manager = RecordingManager(token, refusals)
    async with harness.network.service("manager").running(manager) as address:
        await LeaderPublication(grant, "resource_manager", token).publish(address)
        yield manager


def start_link(harness: Harness) -> None:
    harness.job.scope.spawn("retrieval", harness.retrieval.run())
    harness.job.scope.spawn("link", keep_registered(harness.job, harness.address))


def test_requirements_are_declared_in_full_once_a_resource_manager_leads() -> None:
    """Each change declares all that the job needs and holds (POOL-01, POOL-03, JM-01)."""

    async def scenario(harness: Harness) -> None:
        start_link(harness)
        await asyncio.sleep(10)
        async with manager_of(harness) as manager:
            await asyncio.sleep(1)
            assert manager.declared == [(1, 0)]
            await harness.admit()
            await asyncio.sleep(1)
            assert manager.declared[-1] == (1, 1)

    run_scenario(scenario)


def test_a_failed_declaration_is_repeated_with_the_current_requirements() -> None:
    """Only the current requirements ever arrive (POOL-02)."""

    async def scenario(harness: Harness) -> None:
        start_link(harness)
        async with manager_of(harness, refusals=3) as manager:
            await asyncio.sleep(1)
            assert manager.declared == []
            await harness.admit()
            await asyncio.sleep(5)
            assert manager.refusals == 0
            assert set(manager.declared) == {(1, 1)}

    run_scenario(scenario)


def test_slots_that_are_offered_while_no_resource_manager_leads_are_used() -> None:
    """Slots beyond the need are declined (POOL-08)."""

    async def scenario(harness: Harness) -> None:
        attempt = await harness.deploy()
        running = harness.job.graph.attempt(attempt)
        assert running is not None
        assert running.state is ExecutionState.DEPLOYING
        assert running.slot is not None
        assert running.slot.allocation == SLOT
        surplus = await harness.master.offer_slots(InstanceId("life-1"), (AllocationId("other"),))
        assert surplus == (), "a slot that is not needed is declined"

    run_scenario(scenario)
