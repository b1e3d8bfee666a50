"""A whole cluster in one process, on virtual time, from a seed, for fault injection.

Masters and task executors are the real parts, wired as in their processes. Network, coordinator,
storage and engine are in-memory implementations.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from stoker.aio.scope import TaskScope
from stoker.blob.cache import BlobCache
from stoker.blob.options import BlobOptions
from stoker.blob.server import BlobServer
from stoker.blob.transfer import inline
from stoker.core.errors import FencingTokenMismatch, JobAlreadyEnded, StokerError
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids, JobId, ResourceId
from stoker.core.results import AttemptOutcome, JobSummary
from stoker.core.states import JobStatus
from stoker.dispatcher.options import QueueOptions
from stoker.dispatcher.services import RepartitionState, cannot_repartition
from stoker.events.event import EventId, LoggedEvent
from stoker.events.options import EventOptions
from stoker.events.query import EventPage, EventQuery
from stoker.gateways.dispatcher import DISPATCHER, DispatcherGateway
from stoker.ha.memory import MemoryCoordination
from stoker.ha.retrieval import LeaderRetrieval
from stoker.ha.stores.shutdowns import ShutdownFollower
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.heartbeat.options import HeartbeatOptions
from stoker.jobmaster.options import JobMasterOptions
from stoker.metrics.registry import MetricRegistry
from stoker.processes.master_parts import MasterParts, MasterServices, PartOptions
from stoker.processes.shutdown import first_of
from stoker.rpc.memory import MemoryNetwork
from stoker.rpc.options import RegistrationOptions
from stoker.storage.memory import MemoryStorage
from stoker.taskexecutor.options import TaskExecutorOptions
from stoker.taskexecutor.run import running_task_executor
from stoker.taskexecutor.services import TaskExecutorServices
from stoker.taskexecutor.slots import SavedSlot
from stoker.taskexecutor.tasks import TaskServices
from stoker.testing.fake_engine import FakeEngine
from stoker.testing.history import History, broken_log_invariants
from stoker.testing.process_view import ProcessCoordinator, ProcessSlots, ProcessStorage, Slowness
from stoker.testing.virtual_time import VirtualTimeLoop, running_process, virtual_wall_clock


@dataclass
class RandomFaults:
    """No faults by default. Each message has its own delay, so messages overtake each other."""

    random: random.Random
    usual_delay: float = 0.0
    """Longest delay of a usual message, in seconds."""
    long_delay: float = 0.0
    long_share: float = 0.0
    """The share of messages that take up to `long_delay` instead."""
    lost_share: float = 0.0
    messages: int = field(default=0, init=False)

    def delay(self, source: str, destination: str) -> float | None:
        self.messages += 1
        chance = self.random.random()
        if chance < self.lost_share:
            return None
        if chance < self.lost_share + self.long_share:
            return self.random.uniform(0, self.long_delay)
        return self.random.uniform(0, self.usual_delay) if self.usual_delay else 0.0

    def calm_down(self) -> None:
        self.usual_delay = self.long_share = self.lost_share = 0.0


T = TypeVar("T")

SESSION_TIMEOUT = 4.0
EVENTS_SECONDS = 20.0
"""Within this time after all faults, everything that happened is in the event log."""
HEARTBEAT = HeartbeatOptions(interval=timedelta(seconds=2), timeout=timedelta(seconds=10))
RETRY = RegistrationOptions(error_delay=timedelta(seconds=1), refused_delay=timedelta(seconds=1))


@dataclass
class Process:
    name: str
    session: ProcessCoordinator
    storage: ProcessStorage
    task: "asyncio.Task[None]"
    engine: FakeEngine | None = None
    slots: ProcessSlots | None = None
    metrics: MetricRegistry = field(default_factory=MetricRegistry)


class _ObservedOutcomes(OutcomeStore):
    def __init__(self, storage: ProcessStorage, history: History) -> None:
        super().__init__(storage)
        self._history = history

    async def write(self, outcome: AttemptOutcome) -> AttemptOutcome:
        standing = await super().write(outcome)
        self._history.note_outcome(standing)
        return standing


class _Network(MemoryNetwork):
    """Delivers a message in the context of its receiver: a frozen process gets it when it wakes."""

    def context_of(self, service: str) -> Context:
        context = super().context_of(service)
        context.run(running_process.set, service)
        return context


@dataclass
class SimulatedCluster:
    seed: int
    folder: Path
    """Parent of the working directories of task executors; its content never affects the run."""
    slots: int = 2
    queues: QueueOptions = field(default_factory=QueueOptions)
    job_master: JobMasterOptions = field(default_factory=JobMasterOptions)
    event_options: EventOptions = field(default_factory=EventOptions)
    history: History = field(default_factory=History)
    repartition: RepartitionState = cannot_repartition
    """How masters repartition the state in a savepoint."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.ids = Ids(random.Random(self.seed + 1))
        self.faults = RandomFaults(random.Random(self.seed + 2))
        self.network = _Network(self.faults)
        self.coordination = MemoryCoordination(session_timeout=SESSION_TIMEOUT)
        self.wall_clock = virtual_wall_clock()
        self.storage = MemoryStorage(self.wall_clock)
        self.saved = MemoryStorage(self.wall_clock)
        """Storage of savepoints."""
        self.slow_storage = Slowness(random.Random(self.seed + 3))
        self.slow_coordinator = Slowness(random.Random(self.seed + 4))
        self.processes: dict[str, Process] = {}
        self._scope = TaskScope("simulated cluster")
        self._lives = 0
        self._disks: dict[str, dict[int, SavedSlot]] = {}
        """Slot records of task executors, by the name of their machine."""

    @asynccontextmanager
    async def running(self, *, masters: int = 2, executors: int = 3) -> AsyncIterator[None]:
        async with self._scope:
            session = self.coordination.session()
            self._rpc = self.network.service("client")
            self._dispatcher = LeaderRetrieval(session, DISPATCHER)
            self._scope.spawn("client", self._dispatcher.run())
            for number in range(masters):
                self.start_master(f"master-{number}")
            for number in range(executors):
                self.start_executor(f"executor-{number}")
            try:
                yield
            finally:
                for name in list(self.processes):
                    await self.stop(name)

    # Processes

    def start_master(self, name: str) -> None:
        session = ProcessCoordinator(self.coordination, self.slow_coordinator)
        storage = ProcessStorage(self.storage, self.slow_storage)
        shutdowns = ShutdownFollower()
        metrics = MetricRegistry(now=self._loop.time)
        services = MasterServices(
            resource_id=ResourceId(name),
            rpc=self.network.service(name),
            coordinator=session,
            storage=storage,
            blobs=BlobServer(
                storage, self.folder / name / "uploads", BlobOptions(), off_loop=inline
            ),
            ids=self.ids,
            wall_clock=self.wall_clock,
            open_storage=lambda _url: self.saved,
            repartition=self._repartition,
            options=PartOptions(
                heartbeat=HEARTBEAT,
                queues=self.queues,
                job_master=self.job_master,
                events=self.event_options,
            ),
            shutdowns=shutdowns,
            metrics=metrics.process,
        )
        task = self._scope.spawn(name, self._live(name, lambda: self._run_master(services)))
        self.processes[name] = Process(name, session, storage, task, metrics=metrics)

    async def _run_master(self, services: MasterServices) -> None:
        assert services.shutdowns is not None
        try:
            async with TaskScope(services.resource_id) as scope:
                scope.spawn("shutdown", services.shutdowns.run(services.coordinator))
                scope.spawn("parts", MasterParts(services).run())
                await services.shutdowns.over.wait()
        finally:
            if services.shutdowns.over.is_set():
                await services.coordinator.close()

    async def _repartition(self, path: str, partitions: int) -> str:
        return await self.repartition(path, partitions)

    def start_executor(self, name: str, *, resource_id: str | None = None) -> None:
        """Start a task executor; `resource_id` if it takes over the id of another machine's."""
        session = ProcessCoordinator(self.coordination, self.slow_coordinator, auto_renewing=True)
        storage = ProcessStorage(self.storage, self.slow_storage)
        engine = FakeEngine(name, self.history, self.wall_clock)
        self._lives += 1
        folder = self.folder / f"{name}-{self._lives}"
        metrics = MetricRegistry(now=self._loop.time)
        slots = ProcessSlots(self._disks.setdefault(name, {}))
        blobs = BlobCache(folder / "artifacts", BlobOptions(), storage=storage, off_loop=inline)
        services = TaskExecutorServices(
            rpc=self.network.service(name),
            coordinator=session,
            tasks=TaskServices(
                engine=engine,
                blobs=blobs,
                storage=storage,
                outcomes=_ObservedOutcomes(storage, self.history),
                wall_clock=self.wall_clock,
                work_dir=folder,
                log_dir=folder / "log",
                metrics=metrics.process,
            ),
            resource_id=ResourceId(resource_id or name),
            instance=self.ids.instance(),
            slot_store=slots,
            options=TaskExecutorOptions(slots=self.slots),
            heartbeat=HEARTBEAT,
            registration=RETRY,
            metrics=metrics.process,
        )
        task = self._scope.spawn(
            name, self._live(name, lambda: self._run_executor(services, blobs, engine))
        )
        self.processes[name] = Process(name, session, storage, task, engine, slots, metrics)

    async def _run_executor(
        self, services: TaskExecutorServices, blobs: BlobCache, engine: FakeEngine
    ) -> None:
        try:
            async with blobs, TaskScope(services.resource_id) as scope:
                shutdowns = ShutdownFollower()
                scope.spawn("shutdown", shutdowns.run(services.coordinator))
                async with running_task_executor(services) as executor:
                    await first_of(executor.drained, shutdowns.over)
        finally:
            await engine.close()

    async def _live(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """A StokerError ends only this process, as a crash would."""
        running_process.set(name)
        try:
            await work()
        except StokerError:
            return

    async def kill(self, name: str) -> None:
        """Like kill -9: nothing deregisters; the coordinator notices after the session timeout."""
        process = self.crash(name)
        await asyncio.gather(process.task, return_exceptions=True)

    def crash(self, name: str) -> Process:
        """End the process at once: whatever its code still does has no effect."""
        process = self.processes.pop(name)
        self.network.crash(name)
        self.coordination.suspend(process.session)
        process.storage.is_cut = True
        if process.engine is not None:
            process.engine.vanish()
        if process.slots is not None:
            process.slots.is_cut = True
        process.task.cancel()
        self._loop.thaw(name)
        return process

    def freeze(self, name: str) -> None:
        """Like SIGSTOP of the process and its children, or like a paused machine."""
        self._loop.freeze(name)
        self.processes[name].session.freeze()
        self.history.freeze(name, self._loop.time())

    def thaw(self, name: str, *, contact_after: float = 0.0) -> None:
        """Continue the process where it stopped; it hears from the coordinator a little later."""
        self.history.thaw(name, self._loop.time())
        self._loop.call_later(contact_after, self.processes[name].session.regain_contact)
        self._loop.thaw(name)

    @property
    def _loop(self) -> VirtualTimeLoop:
        return cast(VirtualTimeLoop, asyncio.get_running_loop())

    def start(self, name: str) -> None:
        if name.startswith("master"):
            self.start_master(name)
        else:
            self.start_executor(name)

    def ended_by_themselves(self) -> list[str]:
        return [name for name, process in self.processes.items() if process.task.done()]

    def cut_off(self, name: str) -> None:
        """Cut off from all other processes and the client, but not from the coordinator."""
        for other in (*self.processes, "client"):
            if other != name:
                self.network.partition(name, other)

    async def stop(self, name: str) -> None:
        """Like SIGTERM, which a frozen process receives when it wakes up."""
        process = self.processes.pop(name)
        process.task.cancel()
        self._loop.thaw(name)
        await asyncio.gather(process.task, return_exceptions=True)
        service = self.network.find(name)
        if service is not None:
            await service.close()
        await process.session.close()

    def leader(self) -> str | None:
        known = self._dispatcher.leader
        return str(known.process) if known else None

    # A client

    async def ask(
        self, call: Callable[[DispatcherGateway], Awaitable[T]], *, patience: float = 300.0
    ) -> T:
        """The answer of the leader; the call is repeated while no master answers."""
        async with asyncio.timeout(patience):
            while True:
                leader = await self._dispatcher.wait_for_leader()
                try:
                    gateway = await self._rpc.connect(
                        leader.address, DispatcherGateway, token=leader.token
                    )
                    return await call(gateway)
                except StokerError as error:
                    if error.status < 500 and not isinstance(error, FencingTokenMismatch):
                        raise
                    await asyncio.sleep(0.5)

    async def submit(self, graph: JobGraph) -> JobId:
        answer = await self.ask(lambda dispatcher: dispatcher.submit_job(graph))
        self.history.acknowledged[answer.job_id] = asyncio.get_running_loop().time()
        return answer.job_id

    async def cancel(self, job_id: JobId) -> None:
        try:
            await self.ask(lambda dispatcher: dispatcher.cancel_job(job_id))
        except JobAlreadyEnded:
            return
        self.history.cancelled[job_id] = asyncio.get_running_loop().time()

    async def status(self, job_id: JobId) -> JobStatus:
        return await self.ask(lambda dispatcher: dispatcher.job_status(job_id))

    async def wait_for_end(self, job_id: JobId, *, patience: float = 900.0) -> JobStatus:
        status = JobStatus.INITIALIZING
        async with asyncio.timeout(patience):
            while not status.globally_terminal:
                status = await self.ask(partial(_next_status, job_id, status))
        self.history.ends.setdefault(job_id, (status, asyncio.get_running_loop().time()))
        return status

    async def broken_invariants(self) -> list[str]:
        jobs = await self.jobs()
        final = {job.job_id: job.status for job in jobs}
        # The event log is written a moment after what it tells of.
        await asyncio.sleep(EVENTS_SECONDS)
        return [
            *self.history.broken_invariants(final),
            *broken_log_invariants(await self.events(), final, self.history.acknowledged),
        ]

    async def events(self) -> list[LoggedEvent]:
        """The whole event log of the leader, oldest first."""
        found: list[LoggedEvent] = []
        mark: EventId | None = None
        while True:
            query = EventQuery(mark=mark, oldest_first=True)
            page = await self.ask(partial(_read_events, query))
            found.extend(page.events)
            if (mark := page.mark) is None:
                return found

    async def jobs(self) -> list[JobSummary]:
        """All jobs that the leading dispatcher knows, each once."""
        known = await self.ask(lambda dispatcher: dispatcher.jobs_since(None, 0))
        return list({job.job_id: job for job in (*known.ended, *known.live)}.values())


async def _read_events(query: EventQuery, dispatcher: DispatcherGateway) -> EventPage:
    return await dispatcher.read_events(query)


async def _next_status(job_id: JobId, known: JobStatus, dispatcher: DispatcherGateway) -> JobStatus:
    return await dispatcher.wait_for_change(job_id, (known,), 5.0)
