"""A dispatcher in a real election, with fake job masters that the test controls."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from builders import build_details, build_graph
from stoker.aio.latest import Latest
from stoker.aio.scope import TaskScope
from stoker.blob.options import BlobOptions
from stoker.blob.server import BlobServer
from stoker.blob.transfer import inline
from stoker.core.description import plan_of
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids, JobId, ResourceId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.dispatcher.options import DispatcherOptions
from stoker.dispatcher.run import lead_dispatcher
from stoker.dispatcher.services import DispatcherServices
from stoker.gateways.dispatcher import DISPATCHER, DispatcherGateway
from stoker.gateways.job import JobEnd, JobToRun, RunningJob
from stoker.ha import keys
from stoker.ha.election import LeaderElection
from stoker.ha.memory import MemoryCoordination
from stoker.ha.publication import LeaderAddress
from stoker.ha.record import decode_record
from stoker.ha.retrieval import LeaderRetrieval
from stoker.rpc.memory import MemoryNetwork
from stoker.savepoints.locations import SavepointServices
from stoker.savepoints.options import SavepointOptions
from stoker.storage.memory import MemoryStorage
from stoker.testing.virtual_time import virtual_wall_clock

UNUSED = Path("/nonexistent")


class FakeJob:
    """A job master that ends when the test says so."""

    def __init__(self, to_run: JobToRun) -> None:
        self.to_run = to_run
        self._status = Latest(JobStatus.RUNNING)
        self._end: asyncio.Future[JobEnd] = asyncio.get_running_loop().create_future()
        self._on_change: Callable[[], None] = lambda: None
        self.cancels = 0

    def details(self) -> JobDetails:
        graph = self.to_run.graph
        return build_details(
            self._status.value,
            job_id=graph.job_id,
            name=graph.name,
            job_type=graph.job_type,
            start=self.to_run.submitted_at,
            plan=plan_of(graph),
        )

    @property
    def status(self) -> JobStatus:
        return self._status.value

    def set_change_listener(self, listener: Callable[[], None]) -> None:
        self._on_change = listener

    async def wait_for_change(self, known: JobStatus) -> JobStatus:
        return await self._status.wait_for_change(known)

    def cancel(self) -> None:
        self.cancels += 1
        self.finish(JobStatus.CANCELED)

    async def wait_for_end(self) -> JobEnd:
        return await asyncio.shield(self._end)

    def break_with(self, error: Exception) -> None:
        self._end.set_exception(error)

    def finish(self, status: JobStatus = JobStatus.FINISHED) -> None:
        self._status.set(status)
        self._on_change()
        self._end.set_result(JobEnd(details=msgspec.structs.replace(self.details(), end=7)))


class Jobs:
    """Starts fake jobs and records their starts and stops."""

    def __init__(self) -> None:
        self.started: list[FakeJob] = []
        self.stopped: list[JobId] = []
        self.seconds_to_stop = 0.0
        self.fails_at_exit = False
        self.hold: asyncio.Event | None = None
        """If given, job masters start only after this event is set."""

    @asynccontextmanager
    async def start(self, to_run: JobToRun) -> AsyncIterator[RunningJob]:
        if self.hold is not None:
            await self.hold.wait()
        job = FakeJob(to_run)
        self.started.append(job)
        try:
            yield job
        finally:
            await asyncio.sleep(self.seconds_to_stop)
            self.stopped.append(to_run.graph.job_id)
            if self.fails_at_exit:
                raise RuntimeError("it broke at the very end")

    @property
    def last(self) -> FakeJob:
        return self.started[-1]


class Master:
    """One process that takes part in the election of the dispatcher."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.jobs = Jobs()
        self.session = world.coordination.session()
        self.rpc = world.network.service(name)
        self.election = LeaderElection(self.session, process=ResourceId(name), ids=world.ids)
        self.errors: list[BaseException] = []
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> "Master":
        services = DispatcherServices(
            rpc=self.rpc,
            storage=self.world.storage,
            blobs=BlobServer(self.world.storage, UNUSED, BlobOptions(), off_loop=inline),
            start_job=self.jobs.start,
            resource_manager=LeaderRetrieval(self.session, "resource_manager"),
            ids=self.world.ids,
            wall_clock=self.world.wall_clock,
            options=self.world.options,
            savepoints=self.world.savepoints,
        )
        lead = partial(lead_dispatcher, services=services)
        for name, part in (
            ("election", self.election.run()),
            ("dispatcher", self.election.run_while_leading(DISPATCHER, lead)),
        ):
            self._tasks.append(
                self.world.scope.spawn(f"{self.name}/{name}", self._record_error(part))
            )
        return self

    async def _record_error(self, part: "asyncio.Future[None] | object") -> None:
        try:
            await part  # type: ignore[misc]
        except Exception as error:
            self.errors.append(error)

    async def stop(self) -> None:
        """Stop in an orderly way, which hands leadership over."""
        for task in reversed(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class World:
    """The coordinator, the storage and the network that masters share, and a client."""

    def __init__(self, scope: TaskScope, options: DispatcherOptions) -> None:
        self.scope = scope
        self.options = options
        self.coordination = MemoryCoordination(session_timeout=10)
        self.network = MemoryNetwork()
        self.storage = MemoryStorage()
        self.places: dict[str, MemoryStorage] = {}
        """Directories outside of the storage, by their URLs."""
        self.savepoints = SavepointServices(
            options=SavepointOptions(retained_directory="/kept"),
            open_storage=lambda url: self.places.setdefault(url, MemoryStorage()),
        )
        self.ids = Ids(random.Random(3))
        self.wall_clock = virtual_wall_clock()
        self.observer = self.coordination.session()
        self._client = self.network.service("client")
        self._names = iter(f"master-{number}" for number in range(100))

    def master(self) -> Master:
        return Master(self, next(self._names)).start()

    def graph(self, name: str = "orders") -> JobGraph:
        return build_graph(job_id=self.ids.job(), name=name)

    async def published(self) -> LeaderAddress | None:
        found = await self.observer.read(keys.leader(DISPATCHER))
        return decode_record(found.value, LeaderAddress, "leader") if found else None

    async def dispatcher(self) -> DispatcherGateway:
        leader = await self.published()
        assert leader is not None, "there is no leader"
        return await self._client.connect(leader.address, DispatcherGateway, token=leader.token)


@asynccontextmanager
async def new_world(options: DispatcherOptions | None = None) -> AsyncIterator[World]:
    async with TaskScope("world") as scope:
        yield World(scope, options or DispatcherOptions())
