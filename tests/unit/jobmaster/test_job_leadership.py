"""The leadership of one job: the lifetime of its master and of the master's address."""

import asyncio
import contextlib
import io
import logging
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta

import msgspec
import pytest

from stoker.aio.log_context import current_log_fields
from stoker.aio.scope import TaskScope
from stoker.core.errors import Fenced, InvalidInput, StokerError, Unavailable
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids, ResourceId
from stoker.core.states import JobStatus
from stoker.gateways.job import JobToRun, RunningJob
from stoker.gateways.jobmaster import JobMasterGateway, job_component
from stoker.ha import keys
from stoker.ha.election import LeaderElection
from stoker.ha.memory import MemoryCoordination
from stoker.ha.publication import LeaderAddress
from stoker.ha.record import decode_record
from stoker.ha.retrieval import LeaderRetrieval
from stoker.heartbeat.options import HeartbeatOptions
from stoker.jobmaster import run
from stoker.jobmaster.endpoint import JobMaster
from stoker.jobmaster.execution_graph import ExecutionGraph
from stoker.jobmaster.job import JobMasterServices
from stoker.jobmaster.run import running_job
from stoker.processes.log_format import TextFormatter
from stoker.rpc.memory import MemoryNetwork
from stoker.storage.memory import MemoryStorage
from stoker.testing.virtual_time import run_virtual, virtual_wall_clock
from unit.jobmaster.graphs import JOB, graph_with_sinks

HEARTBEAT = HeartbeatOptions(interval=timedelta(seconds=2), timeout=timedelta(seconds=10))


class World:
    """One process that may lead, and an observer that looks for the job's master."""

    def __init__(self) -> None:
        self.coordination = MemoryCoordination(session_timeout=10)
        self.session = self.coordination.session()
        self.observer = self.coordination.session()
        self.network = MemoryNetwork()
        self.ids = Ids(random.Random(1))
        self.rpc = self.network.service("master")
        self.client = self.network.service("client")
        self.election = LeaderElection(self.session, process=ResourceId("master"), ids=self.ids)

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        async with TaskScope("world") as scope:
            scope.spawn("election", self.election.run())
            yield

    def job(self, graph: JobGraph | None = None) -> "ClosedJob":
        services = JobMasterServices(
            rpc=self.rpc,
            ids=self.ids,
            wall_clock=virtual_wall_clock(),
            resource_manager=LeaderRetrieval(self.session, "resource_manager"),
            heartbeat=HEARTBEAT,
        )
        to_run = JobToRun(graph=graph or graph_with_sinks("out"), submitted_at=0)
        return ClosedJob(
            running_job(to_run, services, election=self.election, storage=MemoryStorage())
        )

    async def published(self) -> LeaderAddress | None:
        found = await self.observer.read(keys.leader(job_component(JOB)))
        return decode_record(found.value, LeaderAddress, "leader") if found else None

    async def gateway(self, leader: LeaderAddress) -> JobMasterGateway:
        return await self.client.connect(leader.address, JobMasterGateway, token=leader.token)

    async def lose_and_regain(self) -> None:
        self.coordination.suspend(self.session)
        await asyncio.sleep(2)
        self.coordination.resume(self.session)
        await asyncio.sleep(2)


class ClosedJob:
    """A running job that is closed before its end, like by a dispatcher that closes."""

    def __init__(self, context: AbstractAsyncContextManager[RunningJob]) -> None:
        self._context = context
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> RunningJob:
        return await self._stack.enter_async_context(self._context)

    async def __aexit__(self, *error: object) -> None:
        # Only a cancellation leaves the body of a running job before its end.
        with contextlib.suppress(asyncio.CancelledError):
            await self._stack.__aexit__(asyncio.CancelledError, asyncio.CancelledError(), None)


def test_a_job_gets_its_own_master_under_each_leadership() -> None:
    """The master is found under the session that leads and under no other (JMR-01, LEAD-21)."""

    async def scenario() -> None:
        world = World()
        async with world.leading(), world.job() as job:
            await asyncio.sleep(1)
            first = await world.published()
            assert first is not None
            assert job.details().status is JobStatus.RUNNING
            await world.lose_and_regain()
            second = await world.published()
            assert second is not None
            assert second.token.epoch > first.token.epoch
            assert second.token.session != first.token.session
            assert job.details().status is JobStatus.RUNNING

    run_virtual(scenario)


def test_a_log_line_of_a_job_master_carries_its_job_and_epoch(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, logger="stoker.jobmaster")
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(TextFormatter())
    monkeypatch.setattr(logging.getLogger("stoker.jobmaster"), "handlers", [handler])

    async def scenario() -> None:
        world = World()
        async with world.leading(), world.job():
            await asyncio.sleep(1)

    run_virtual(scenario)
    lines = written.getvalue().splitlines()
    assert lines
    for line in lines:
        assert line.endswith(f"[component=jobmaster epoch=0 job={JOB}]")


def test_a_call_to_a_job_master_is_logged_with_its_job_and_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    carried: list[dict[str, object]] = []

    async def heartbeat(_master: JobMaster) -> None:
        carried.append(dict(current_log_fields()))

    monkeypatch.setattr(JobMaster, "heartbeat_from_resource_manager", heartbeat)

    async def scenario() -> None:
        world = World()
        async with world.leading(), world.job():
            await asyncio.sleep(1)
            leader = await world.published()
            assert leader is not None
            master = await world.gateway(leader)
            await master.heartbeat_from_resource_manager()

    run_virtual(scenario)
    assert carried == [{"component": "jobmaster", "epoch": 0, "job": JOB}]


def test_a_gateway_to_a_previous_leadership_is_refused() -> None:
    """A gateway to the new leadership is served (JMR-11)."""

    async def scenario() -> None:
        world = World()
        async with world.leading(), world.job():
            await asyncio.sleep(1)
            leader = await world.published()
            assert leader is not None
            old = await world.gateway(leader)
            await old.heartbeat_from_resource_manager()
            await world.lose_and_regain()
            with pytest.raises(StokerError) as refused:
                await old.heartbeat_from_resource_manager()
            assert isinstance(refused.value, Fenced | Unavailable)
            leader = await world.published()
            assert leader is not None
            new = await world.gateway(leader)
            await new.heartbeat_from_resource_manager()

    run_virtual(scenario)


def test_closing_a_running_job_suspends_it_and_stops_its_master() -> None:
    """Its end stays open, so none is recorded (JMR-03, JMR-05, JM-12)."""

    async def scenario() -> None:
        world = World()
        async with world.leading():
            async with world.job() as job:
                await asyncio.sleep(1)
                leader = await world.published()
                assert leader is not None
                ended = asyncio.ensure_future(job.wait_for_end())
            assert not ended.done(), "the job has not ended, so no end is recorded"
            assert await world.published() is None
            with pytest.raises(StokerError):
                await world.gateway(leader)
            ended.cancel()

    run_virtual(scenario)


def test_without_leadership_a_job_has_no_master_and_is_initializing() -> None:
    """A requested cancellation remains, because it is recorded (JMR-08, JMR-09)."""

    async def scenario() -> None:
        world = World()
        async with world.job() as job:
            await asyncio.sleep(5)
            details = job.details()
            assert (details.job_id, details.name) == (JOB, "test")
            assert details.status is JobStatus.INITIALIZING
            job.cancel()
            assert job.details().status is JobStatus.CANCELLING
            assert await world.published() is None

    run_virtual(scenario)


def test_a_job_whose_master_cannot_be_created_fails_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its master is never published (JMR-06, DISP-09)."""

    def refuse(*_args: object, **_facts: object) -> ExecutionGraph:
        raise InvalidInput("no such thing")

    monkeypatch.setattr(run, "ExecutionGraph", refuse)
    graph = msgspec.structs.replace(graph_with_sinks("out"), configuration={"a": "b"})

    async def scenario() -> None:
        world = World()
        async with world.leading(), world.job(graph) as job:
            async with asyncio.timeout(10):
                end = await job.wait_for_end()
            assert end.details.status is JobStatus.FAILED
            assert end.failure is not None
            assert end.failure.message == "no such thing"
            assert [record.failure for record in end.details.failures] == [end.failure]
            assert end.details.configuration == {"a": "b"}
            assert await world.published() is None

    run_virtual(scenario)


def test_a_job_that_has_ended_gets_no_new_master(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leadership may come and go; the end stays the same (JMR-02)."""
    made: list[float] = []
    make = ExecutionGraph

    def note(*args: object, **facts: object) -> ExecutionGraph:
        made.append(asyncio.get_running_loop().time())
        return make(*args, **facts)  # type: ignore[arg-type]

    monkeypatch.setattr(run, "ExecutionGraph", note)

    async def scenario() -> None:
        world = World()
        async with world.leading(), world.job() as job:
            await asyncio.sleep(1)
            job.cancel()
            async with asyncio.timeout(10):
                end = await job.wait_for_end()
            assert end.details.status is JobStatus.CANCELED
            await world.lose_and_regain()
            await world.lose_and_regain()
            assert len(made) == 1
            assert (await job.wait_for_end()) is end

    run_virtual(scenario)
