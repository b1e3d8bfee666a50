"""The resource manager with a provider: starts, losses, releases."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from msgspec import structs

from stoker.core.errors import NotFound, StartupFailed, Unavailable
from stoker.core.graph import ResourceProfile
from stoker.core.ids import JobId, ResourceId, SessionId
from stoker.core.values import FencingToken
from stoker.gateways.resourcemanager import Registered, ResourceRequirements
from stoker.resourcemanager.provider import EndedExecutor, ExecutorOffer
from unit.fake_parts import JOB, MASTER, FakeExecutor, FakeMaster
from unit.resourcemanager.harness import Harness, run_scenario

OFFER = ExecutorOffer(slots=2, profile=ResourceProfile(cores=2, memory_bytes=1_000))


class FakeProvider:
    """Pretends to start executors; the test ends them."""

    def __init__(self, limit: int = 2) -> None:
        self.limit = limit
        self.offer: ExecutorOffer | None = OFFER
        self.started: list[ResourceId] = []
        self.stopped: list[ResourceId] = []
        self.fails = False
        self.failed_at: list[float] = []
        self._living: list[ResourceId] = []
        self._ends: asyncio.Queue[EndedExecutor] = asyncio.Queue()

    def alive(self) -> tuple[ResourceId, ...]:
        return tuple(self._living)

    async def start(self) -> ResourceId:
        if self.fails:
            self.failed_at.append(asyncio.get_running_loop().time())
            raise StartupFailed("no room")
        name = ResourceId(f"local-{len(self.started)}")
        self.started.append(name)
        self._living.append(name)
        return name

    async def stop(self, resource_id: ResourceId) -> None:
        self.stopped.append(resource_id)
        self.end(resource_id, "it was stopped")

    def end(self, resource_id: ResourceId, reason: str) -> None:
        self._living.remove(resource_id)
        self._ends.put_nowait(EndedExecutor(resource_id=resource_id, reason=reason))

    async def next_end(self) -> EndedExecutor:
        return await self._ends.get()


async def need(harness: Harness, slots: int, **more: object) -> None:
    await harness.gateway.register_job_master(harness.master_registration())
    await harness.declare(slots, **more)
    await asyncio.sleep(0.1)


def test_missing_executors_are_started_up_to_the_limit() -> None:
    """The wait reason counts those that are being started (RM-18, SM-13)."""
    provider = FakeProvider(limit=2)

    async def scenario(harness: Harness) -> None:
        await need(harness, 1)
        assert len(provider.started) == 1
        await harness.declare(9)
        await asyncio.sleep(20)
        assert len(provider.started) == 2
        reason = await harness.gateway.wait_reason(JOB)
        assert reason is not None
        assert "2 task executors being started" in reason.text
        assert (await harness.gateway.overview()).starting == 2

    run_scenario(scenario, provider)


def test_a_started_executor_that_registers_gets_the_slot_requests() -> None:
    """It no longer counts as starting (SM-10)."""
    provider = FakeProvider()

    async def scenario(harness: Harness) -> None:
        await need(harness, 2)
        await harness.gateway.register_task_executor(harness.registration(name="local-0"))
        await asyncio.sleep(0.1)
        assert len(harness.executor.requests) == 2
        assert (await harness.gateway.overview()).starting == 0
        assert len(provider.started) == 1

    run_scenario(scenario, provider)


def test_an_executor_that_dies_before_it_registers_is_replaced_while_needed() -> None:
    """Without a need it is not replaced (RM-18)."""
    provider = FakeProvider()

    async def scenario(harness: Harness) -> None:
        await need(harness, 1)
        provider.end(ResourceId("local-0"), "exit status 1")
        await asyncio.sleep(10)
        assert provider.started == ["local-0", "local-1"]
        await harness.declare(0)
        provider.end(ResourceId("local-1"), "exit status 1")
        await asyncio.sleep(10)
        assert len(provider.started) == 2

    run_scenario(scenario, provider)


def test_a_failed_start_is_retried_at_once_and_after_too_many_failures_with_pauses() -> None:
    """Once the provider works again, one executor is started (RM-19)."""
    provider = FakeProvider()

    async def scenario(harness: Harness) -> None:
        provider.fails = True
        await need(harness, 1)
        assert len(provider.failed_at) == 4, "three failures a minute are allowed"
        await asyncio.sleep(30)
        pauses = [later - at for at, later in pairwise(provider.failed_at[3:])]
        assert pauses == [pytest.approx(3.0)] * 10
        provider.fails = False
        await asyncio.sleep(5)
        assert len(provider.started) == 1

    run_scenario(scenario, provider, start_failures=3, start_pause=timedelta(seconds=3))


def test_an_executor_that_does_not_register_in_time_is_stopped_and_replaced() -> None:
    """It might hang for ever otherwise (RM-20)."""
    provider = FakeProvider()

    async def scenario(harness: Harness) -> None:
        await need(harness, 1)
        await asyncio.sleep(70)
        assert provider.stopped == ["local-0"]
        assert provider.started == ["local-0", "local-1"]

    run_scenario(scenario, provider, start_timeout=timedelta(seconds=60))


@pytest.mark.parametrize("registers", [True, False])
def test_executors_started_by_a_previous_leader_count_until_they_register_or_time_out(
    registers: bool,
) -> None:
    """Otherwise a new leader would start them a second time (RM-17)."""
    provider = FakeProvider(limit=3)
    provider._living.append(ResourceId("previous"))

    async def scenario(harness: Harness) -> None:
        await need(harness, 2)
        assert provider.started == [], (
            "no executor is started while the previous one may still register"
        )
        if registers:
            await harness.gateway.register_task_executor(harness.registration(name="previous"))
        await asyncio.sleep(0.1)
        assert len(harness.executor.requests) == (2 if registers else 0)
        await asyncio.sleep(70)
        assert provider.started == ([] if registers else ["local-0"])

    run_scenario(scenario, provider, start_timeout=timedelta(seconds=60))


def test_a_registered_executor_that_dies_is_removed_at_once() -> None:
    provider = FakeProvider()

    async def scenario(harness: Harness) -> None:
        await need(harness, 1)
        await harness.gateway.register_task_executor(harness.registration(name="local-0"))
        provider.end(ResourceId("local-0"), "it ended (killed by SIGKILL)")
        await asyncio.sleep(0.1)
        assert await harness.gateway.task_executors() == []
        assert harness.master.lost == ["life-1"]

    run_scenario(scenario, provider)


def test_only_idle_executors_that_were_started_on_demand_are_released() -> None:
    """They are released by a drain (SM-11)."""

    async def scenario(harness: Harness) -> None:
        await harness.gateway.register_task_executor(harness.registration(on_demand=True))
        await asyncio.sleep(29)
        assert harness.executor.drained == []
        await asyncio.sleep(8)
        assert harness.executor.drained == [0.0]
        [details] = await harness.gateway.task_executors()
        assert details.draining
        assert (await harness.gateway.overview()).slots_free == 0

    run_scenario(scenario, FakeProvider())

    async def other(harness: Harness) -> None:
        await harness.gateway.register_task_executor(harness.registration())
        await asyncio.sleep(100)
        assert harness.executor.drained == []

    run_scenario(other, FakeProvider())


class ForgetfulExecutor(FakeExecutor):
    """Loses the first request to drain."""

    def drain(self, token: FencingToken, seconds: float | None) -> None:
        super().drain(token, seconds)
        if len(self.drained) == 1:
            raise Unavailable("the request is lost")


def test_a_lost_request_to_release_an_idle_executor_is_repeated() -> None:
    async def scenario(harness: Harness) -> None:
        harness.executor.__class__ = ForgetfulExecutor
        await harness.gateway.register_task_executor(harness.registration(on_demand=True))
        await asyncio.sleep(100)
        assert harness.executor.drained == [0.0, 0.0]

    run_scenario(scenario, FakeProvider())


def test_an_executor_that_is_in_use_is_not_released() -> None:
    """It stays, however long it has been there."""

    async def scenario(harness: Harness) -> None:
        await harness.gateway.register_task_executor(harness.registration(on_demand=True))
        await need(harness, 1)
        await asyncio.sleep(100)
        assert harness.executor.drained == []

    run_scenario(scenario, FakeProvider())


def test_spare_executors_are_started_before_a_running_job_needs_them() -> None:
    """Without a job none is started (SM-12)."""
    provider = FakeProvider(limit=3)

    async def scenario(harness: Harness) -> None:
        await asyncio.sleep(100)
        assert provider.started == []
        await need(harness, 2)
        assert len(provider.started) == 2

    run_scenario(scenario, provider, spare_executors=1)


@pytest.mark.parametrize("is_job_running", [True, False])
def test_a_spare_executor_stays_only_while_a_job_runs(is_job_running: bool) -> None:
    """An idle cluster keeps none (SM-12)."""

    async def scenario(harness: Harness) -> None:
        if is_job_running:
            # The job holds the slot that it needs, at a task executor that is lost here.
            await need(harness, 1, held=1)
        await harness.gateway.register_task_executor(harness.registration(on_demand=True))
        await asyncio.sleep(100)
        assert harness.executor.drained == ([] if is_job_running else [0.0])

    run_scenario(scenario, FakeProvider(), spare_executors=1)


def test_no_executor_is_started_for_a_need_larger_than_any_slot_on_offer() -> None:
    provider = FakeProvider()

    async def scenario(harness: Harness) -> None:
        await need(harness, 1, profile=ResourceProfile(cores=64))
        assert provider.started == []
        wait_reason = await harness.gateway.wait_reason(JOB)
        assert wait_reason is not None
        assert not wait_reason.slots_obtainable
        assert "needs 1 more slot of 64 cores" in wait_reason.text

    run_scenario(scenario, provider)


def test_slots_that_could_be_started_count_as_obtainable() -> None:
    async def scenario(harness: Harness) -> None:
        await need(harness, 1)
        wait_reason = await harness.gateway.wait_reason(JOB)
        assert wait_reason is not None
        assert wait_reason.slots_obtainable

    run_scenario(scenario, FakeProvider())


def test_the_place_of_a_draining_executor_counts_as_obtainable() -> None:
    provider = FakeProvider(limit=1)

    async def scenario(harness: Harness) -> None:
        await need(harness, 1)
        await harness.gateway.register_task_executor(
            harness.registration(name="local-0", on_demand=True)
        )
        await harness.gateway.drain_task_executor(ResourceId("local-0"), None)
        await harness.declare(3)
        wait_reason = await harness.gateway.wait_reason(JOB)
        assert wait_reason is not None
        assert wait_reason.slots_obtainable
        provider.end(ResourceId("local-0"), "it ended")
        await asyncio.sleep(0.1)
        assert len(provider.started) == 2

    run_scenario(scenario, provider)


def test_requirements_of_a_job_without_a_master_are_dropped_after_the_timeout() -> None:
    """Until then the job has a wait reason (RM-14)."""

    async def scenario(harness: Harness) -> None:
        await need(harness, 1)
        harness.network.partition("master", "job")
        await asyncio.sleep(200)
        assert await harness.gateway.wait_reason(JOB) is not None
        await asyncio.sleep(150)
        assert await harness.gateway.wait_reason(JOB) is None

    run_scenario(scenario)


def test_a_declaration_of_a_replaced_or_unknown_master_is_refused() -> None:
    """The successor's requirements must not change (RM-15)."""

    async def scenario(harness: Harness) -> None:
        await harness.gateway.register_job_master(harness.master_registration())
        await harness.declare(1)
        successor = FencingToken(epoch=MASTER.epoch, session=SessionId("n" * 32))
        async with harness.network.service("successor").running(FakeMaster(successor)) as address:
            registration = harness.master_registration(successor)
            registration = structs.replace(registration, address=address)
            assert await harness.gateway.register_job_master(registration) == Registered()
            for job_id in (JOB, JobId("f" * 32)):
                with pytest.raises(NotFound, match="is not registered"):
                    await harness.gateway.declare_requirements(
                        ResourceRequirements(job_id=job_id, token=MASTER, slots=1)
                    )

    run_scenario(scenario)


def test_a_drained_executor_gets_no_slot_requests() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.gateway.register_task_executor(harness.registration())
        await harness.gateway.drain_task_executor(ResourceId("executor"), None)
        await need(harness, 1)
        assert harness.executor.requests == []
        assert harness.executor.drained == [None]

    run_scenario(scenario)
