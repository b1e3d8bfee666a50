"""The resource manager with a provider: starts, losses, releases (RM-17 to RM-20, SM-11)."""

import asyncio
from datetime import timedelta

import pytest

from stoker.core.errors import NotFound, StartupFailed
from stoker.core.graph import ResourceProfile
from stoker.core.ids import JobId, ResourceId
from stoker.gateways.resourcemanager import ResourceRequirements
from stoker.resourcemanager.provider import EndedExecutor, ExecutorOffer
from unit.fake_parts import JOB, MASTER
from unit.resourcemanager.test_endpoint import Stage, play

OFFER = ExecutorOffer(slots=2, profile=ResourceProfile(cores=2, memory_bytes=1_000))


class FakeProvider:
    """Starts names, and lets a test end them."""

    def __init__(self, limit: int = 2) -> None:
        self.limit = limit
        self.offer: ExecutorOffer | None = OFFER
        self.started: list[ResourceId] = []
        self.stopped: list[ResourceId] = []
        self.fails = False
        self._living: list[ResourceId] = []
        self._ends: asyncio.Queue[EndedExecutor] = asyncio.Queue()

    def alive(self) -> tuple[ResourceId, ...]:
        return tuple(self._living)

    async def start(self) -> ResourceId:
        if self.fails:
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


async def need(stage: Stage, slots: int, **more: object) -> None:
    await stage.gateway.register_job_master(stage.master_registration())
    await stage.declare(slots, **more)
    await asyncio.sleep(0.1)


def test_as_many_are_started_as_are_missing_up_to_the_limit() -> None:
    provider = FakeProvider(limit=2)

    async def story(stage: Stage) -> None:
        await need(stage, 1)
        assert len(provider.started) == 1
        await stage.declare(9)
        await asyncio.sleep(20)
        assert len(provider.started) == 2
        reason = await stage.gateway.wait_reason(JOB)
        assert reason is not None
        assert "2 task executors being started" in reason.text
        assert (await stage.gateway.overview()).starting == 2

    play(story, provider)


def test_one_that_registers_is_not_awaited_any_more_and_gets_the_slots() -> None:
    """SM-10"""
    provider = FakeProvider()

    async def story(stage: Stage) -> None:
        await need(stage, 2)
        await stage.gateway.register_task_executor(stage.registration(name="local-0"))
        await asyncio.sleep(0.1)
        assert len(stage.executor.requests) == 2
        assert (await stage.gateway.overview()).starting == 0
        assert len(provider.started) == 1

    play(story, provider)


def test_an_early_death_is_replaced_while_there_is_need() -> None:
    provider = FakeProvider()

    async def story(stage: Stage) -> None:
        await need(stage, 1)
        provider.end(ResourceId("local-0"), "exit status 1")
        await asyncio.sleep(10)
        assert provider.started == ["local-0", "local-1"]
        await stage.declare(0)
        provider.end(ResourceId("local-1"), "exit status 1")
        await asyncio.sleep(10)
        assert len(provider.started) == 2

    play(story, provider)


def test_a_start_that_fails_is_tried_again_and_not_in_a_rush() -> None:
    provider = FakeProvider()

    async def story(stage: Stage) -> None:
        provider.fails = True
        await need(stage, 1)
        await asyncio.sleep(30)
        provider.fails = False
        await asyncio.sleep(5)
        assert len(provider.started) == 1

    play(story, provider)


def test_one_that_does_not_register_in_time_is_stopped_and_replaced() -> None:
    provider = FakeProvider()

    async def story(stage: Stage) -> None:
        await need(stage, 1)
        await asyncio.sleep(70)
        assert provider.stopped == ["local-0"]
        assert provider.started == ["local-0", "local-1"]

    play(story, provider, start_timeout=timedelta(seconds=60))


@pytest.mark.parametrize("comes", [True, False])
def test_those_of_an_earlier_leader_are_counted_on_until_they_come_or_their_time_is_over(
    comes: bool,
) -> None:
    """RM-17"""
    provider = FakeProvider(limit=3)
    provider._living.append(ResourceId("former"))

    async def story(stage: Stage) -> None:
        await need(stage, 2)
        assert provider.started == [], "nobody is started beside one that is about to register"
        if comes:
            await stage.gateway.register_task_executor(stage.registration(name="former"))
        await asyncio.sleep(0.1)
        assert len(stage.executor.requests) == (2 if comes else 0)
        await asyncio.sleep(70)
        assert provider.started == ([] if comes else ["local-0"])

    play(story, provider, start_timeout=timedelta(seconds=60))


def test_a_registered_one_that_dies_is_lost_at_once() -> None:
    provider = FakeProvider()

    async def story(stage: Stage) -> None:
        await need(stage, 1)
        await stage.gateway.register_task_executor(stage.registration(name="local-0"))
        provider.end(ResourceId("local-0"), "it ended with signal SIGKILL")
        await asyncio.sleep(0.1)
        assert await stage.gateway.task_executors() == []
        assert stage.master.lost == ["life-1"]

    play(story, provider)


def test_an_idle_one_that_was_started_on_demand_is_released_and_others_are_not() -> None:
    async def story(stage: Stage) -> None:
        await stage.gateway.register_task_executor(stage.registration(on_demand=True))
        await asyncio.sleep(29)
        assert stage.executor.drained == []
        await asyncio.sleep(8)
        assert stage.executor.drained == [0.0]
        [details] = await stage.gateway.task_executors()
        assert details.draining
        assert (await stage.gateway.overview()).slots_free == 0

    play(story, FakeProvider())

    async def other(stage: Stage) -> None:
        await stage.gateway.register_task_executor(stage.registration())
        await asyncio.sleep(100)
        assert stage.executor.drained == []

    play(other, FakeProvider())


def test_one_that_is_in_use_or_spare_is_not_released() -> None:
    """SM-12"""

    async def in_use(stage: Stage) -> None:
        await stage.gateway.register_task_executor(stage.registration(on_demand=True))
        await need(stage, 1)
        await asyncio.sleep(100)
        assert stage.executor.drained == []

    play(in_use, FakeProvider())

    async def spare(stage: Stage) -> None:
        await stage.gateway.register_task_executor(stage.registration(on_demand=True))
        await asyncio.sleep(100)
        assert stage.executor.drained == []

    play(spare, FakeProvider(), spare_executors=1)


def test_spare_ones_are_started_before_anybody_needs_them() -> None:
    """SM-12"""
    provider = FakeProvider(limit=3)

    async def story(stage: Stage) -> None:
        await asyncio.sleep(1)
        assert len(provider.started) == 1
        await need(stage, 2)
        assert len(provider.started) == 2

    play(story, provider, spare_executors=1)


def test_nobody_is_started_for_what_no_slot_to_come_could_offer() -> None:
    provider = FakeProvider()

    async def story(stage: Stage) -> None:
        await need(stage, 1, profile=ResourceProfile(cores=64))
        assert provider.started == []
        wait_reason = await stage.gateway.wait_reason(JOB)
        assert wait_reason is not None
        assert not wait_reason.slots_obtainable
        assert "needs 1 more slot of 64 cores" in wait_reason.text

    play(story, provider)


def test_slots_that_could_be_started_are_within_reach() -> None:
    async def story(stage: Stage) -> None:
        await need(stage, 1)
        wait_reason = await stage.gateway.wait_reason(JOB)
        assert wait_reason is not None
        assert wait_reason.slots_obtainable

    play(story, FakeProvider())


def test_one_that_is_leaving_does_not_put_its_place_out_of_reach() -> None:
    provider = FakeProvider(limit=1)

    async def story(stage: Stage) -> None:
        await need(stage, 1)
        await stage.gateway.register_task_executor(
            stage.registration(name="local-0", on_demand=True)
        )
        await stage.gateway.drain_task_executor(ResourceId("local-0"), None)
        await stage.declare(3)
        wait_reason = await stage.gateway.wait_reason(JOB)
        assert wait_reason is not None
        assert wait_reason.slots_obtainable
        provider.end(ResourceId("local-0"), "it ended")
        await asyncio.sleep(0.1)
        assert len(provider.started) == 2

    play(story, provider)


def test_what_a_job_without_a_master_declared_is_forgotten_in_the_end() -> None:
    """RM-14"""

    async def story(stage: Stage) -> None:
        await need(stage, 1)
        stage.network.partition("master", "job")
        await asyncio.sleep(200)
        assert await stage.gateway.wait_reason(JOB) is not None
        await asyncio.sleep(150)
        assert await stage.gateway.wait_reason(JOB) is None

    play(story)


def test_a_master_that_is_not_the_jobs_leader_declares_nothing() -> None:
    """RM-15"""

    async def story(stage: Stage) -> None:
        with pytest.raises(NotFound):
            await stage.gateway.declare_requirements(
                ResourceRequirements(job_id=JobId("f" * 32), token=MASTER, slots=1)
            )

    play(story)


def test_a_drained_executor_gets_no_slot_requests() -> None:
    async def story(stage: Stage) -> None:
        await stage.gateway.register_task_executor(stage.registration())
        await stage.gateway.drain_task_executor(ResourceId("executor"), None)
        await need(stage, 1)
        assert stage.executor.requests == []
        assert stage.executor.drained == [None]

    play(story)
