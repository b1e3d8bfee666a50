"""The task executor: slots and attempts, and what managers and job masters can ask of it."""

import asyncio
import logging
from collections.abc import Collection, Iterable

from stoker.aio.scope import TaskScope
from stoker.core.errors import NotFound, Unavailable
from stoker.core.ids import AllocationId, AttemptId, JobId
from stoker.core.values import FencingToken
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.gateways.jobmaster import job_component
from stoker.gateways.resourcemanager import SlotReport, TaskExecutorRegistration
from stoker.gateways.taskexecutor import (
    SlotRequest,
    Suspension,
    TaskDeployment,
    TaskExecutorGateway,
)
from stoker.ha.masters import MasterDirectory
from stoker.ha.retrieval import LeaderRetrieval
from stoker.rpc.service import Endpoint
from stoker.taskexecutor.draining import Draining
from stoker.taskexecutor.held_task import HeldTask
from stoker.taskexecutor.job_link import ExecutorIdentity, JobLink, MasterHandshake
from stoker.taskexecutor.leases import LeaseKeeper, earliest
from stoker.taskexecutor.resource_manager_link import ResourceManagerLink
from stoker.taskexecutor.services import TaskExecutorServices
from stoker.taskexecutor.slots import PersistentSlotTable, SlotUse
from stoker.taskexecutor.suspensions import Suspensions
from stoker.taskexecutor.tasks import TaskRuns

log = logging.getLogger(__name__)

TASK_EXECUTOR = "task_executor"


class TaskExecutor(Endpoint):
    gateway = TaskExecutorGateway

    def __init__(self, services: TaskExecutorServices) -> None:
        # An address names one life: who calls the one before finds nobody, not the next one.
        super().__init__(f"{TASK_EXECUTOR}-{services.instance}")
        self._services = services
        self.scope = TaskScope("task-executor")
        self.task_scope = TaskScope("tasks")
        """Apart from the rest: when that fails, tasks are still ended in good order."""
        self._slots = PersistentSlotTable(services.options.slots, services.slot_store)
        self._tasks: dict[AttemptId, HeldTask] = {}
        self._links: dict[JobId, JobLink] = {}
        self._link_tasks: dict[JobId, asyncio.Task[None]] = {}
        self._acquaintance = MasterHandshake()
        self._suspensions = Suspensions(services.tasks.work_dir)
        self._runs = TaskRuns(services.tasks, self.task_scope, self._changed, services.lease)
        self.address = f"{services.rpc.address}/{self.name}"
        self._identity = ExecutorIdentity(services.resource_id, services.instance, self.address)
        self._stopping = False
        self._draining = Draining()
        self.drained = asyncio.Event()
        """It was asked to leave, and nothing is left to wait for."""
        self.manager_leader = LeaderRetrieval(services.coordinator, "resource_manager")
        self.manager = ResourceManagerLink(
            rpc=services.rpc,
            retrieval=self.manager_leader,
            registration=self.introduction,
            heartbeat=services.heartbeat,
            retries=services.registration,
        )
        self.masters = MasterDirectory(services.coordinator)
        self.leases = LeaseKeeper(
            rpc=services.rpc,
            coordinator=services.coordinator,
            masters=self.masters,
            options=services.lease,
            last_epoch=self._last_epoch,
            first_expiry=self._first_expiry,
            renew=self._renew_leases,
            jobs_expiring_before=self._jobs_expiring_before,
        )

    def introduction(self) -> TaskExecutorRegistration:
        services = self._services
        return TaskExecutorRegistration(
            resource_id=services.resource_id,
            instance=services.instance,
            address=self.address,
            report=self._slots.report(),
            host=services.host,
            pid=services.pid,
            cores=services.cores,
            memory_bytes=services.memory_bytes,
            engine=dict(services.tasks.engine.description),
            on_demand=services.on_demand,
            draining=self._draining.is_draining,
        )

    @property
    def idle(self) -> bool:
        return not self._tasks

    # The resource manager

    def request_slot(self, token: FencingToken, request: SlotRequest) -> None:
        self.manager.check(token)
        self._draining.check_accepting(request.allocation)
        self._slots.reserve(request.job_id, request.allocation, request.slot, self._loop_time())
        self._link_to(request.job_id).wake()

    def heartbeat_from_resource_manager(self, token: FencingToken) -> SlotReport:
        return self.manager.heartbeat_arrived(token)

    def drain(self, token: FencingToken, seconds: float | None) -> None:
        self.manager.check(token)
        log.info("drained: no new tasks are taken here")
        self._draining.begin(self._loop_time(), seconds)
        self._advance_drain()

    def _advance_drain(self) -> None:
        now = self._loop_time()
        for task in self._draining.tasks_to_move(self._tasks.values(), now):
            task.is_moving = True
            self._runs.cancel(task, "it is drained, and the task begins again elsewhere")
        if self._draining.is_draining:
            held = self._slots.all()
            self._free(
                [each.id for each in held if not self._tasks_of_slot(each.id)], "it is drained"
            )
        if self._draining.is_over(self._tasks.values(), now):
            self.drained.set()

    def free_inactive_slots(self, token: FencingToken, job_id: JobId) -> None:
        self.manager.check(token)
        self._free_idle(self.reserved(job_id), "the resource manager reclaims it")

    def disconnect_resource_manager(self, token: FencingToken, reason: str) -> None:
        self.manager.disconnected(token, reason)

    # Job masters

    def submit_task(self, token: FencingToken, deployment: TaskDeployment) -> None:
        job_id = deployment.graph.job_id
        link = self._link_commanded_by(job_id, token)
        if self._slots.job_of(deployment.allocation) != job_id:
            raise NotFound(
                f"slot {deployment.allocation} is not allocated to job {job_id} here",
                allocation=deployment.allocation,
            )
        if deployment.attempt in link.seen_attempts:
            return
        self._draining.check_accepting(deployment.allocation)
        if self._stopping or self._is_busy(deployment.allocation):
            raise Unavailable(f"slot {deployment.allocation} cannot run a task now; try again")
        self._slots.activate(deployment.allocation, self._loop_time())
        link.seen_attempts.add(deployment.attempt)
        held = HeldTask(deployment, link.lease_under(token))
        self._tasks[deployment.attempt] = held
        self._runs.start(held)

    def cancel_task(self, token: FencingToken, job_id: JobId, attempt: AttemptId) -> None:
        self._link_commanded_by(job_id, token).seen_attempts.add(attempt)
        self.cancel(attempt, "its job master asked for it")

    def suspend_task(
        self,
        token: FencingToken,
        job_id: JobId,
        attempt: AttemptId,
        order: str,
        limit_seconds: float,
        hold_seconds: float,
    ) -> None:
        self._link_commanded_by(job_id, token)
        self._suspensions.suspend(self._tasks.get(attempt), order, limit_seconds, hold_seconds)

    def suspension(
        self, token: FencingToken, job_id: JobId, attempt: AttemptId, order: str
    ) -> Suspension:
        self._link_commanded_by(job_id, token)
        return self._suspensions.state_of(self._tasks.get(attempt), order)

    def decide_suspended(
        self, token: FencingToken, job_id: JobId, attempt: AttemptId, order: str, finish: bool
    ) -> None:
        self._link_commanded_by(job_id, token)
        self._suspensions.decide(self._tasks.get(attempt), order, finish)

    def free_slots(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...], reason: str
    ) -> None:
        self._link_commanded_by(job_id, token)
        self._free([each for each in allocations if self._slots.job_of(each) == job_id], reason)

    def heartbeat_from_job_master(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AttemptId, ...]:
        self._link_commanded_by(job_id, token)
        timeout = self._services.options.slot_timeout.total_seconds()
        surplus = self._slots.surplus(job_id, allocations, self._loop_time(), timeout)
        self._free_idle((held.id for held in surplus), "its job master does not count it any more")
        return tuple(task.attempt for task in self.tasks(job_id))

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        return await self._runs.logs.read(job_id, attempt, stream, offset)

    def _link_commanded_by(self, job_id: JobId, token: FencingToken) -> JobLink:
        link = self._links.get(job_id)
        if link is None:
            raise NotFound(f"nothing of job {job_id} is here", job_id=job_id)
        link.check(token)
        return link

    # Holdings of a job, as its link sees them

    def tasks(self, job_id: JobId) -> list[HeldTask]:
        return [task for task in self._tasks.values() if task.job_id == job_id]

    def reserved(self, job_id: JobId) -> tuple[AllocationId, ...]:
        return tuple(held.id for held in self._slots.of_job(job_id) if held.use is SlotUse.RESERVED)

    def reserve_again(self, job_id: JobId) -> None:
        self._slots.deactivate(job_id, self._loop_time())

    def offer_answered(
        self, job_id: JobId, accepted: Iterable[AllocationId], offered: Iterable[AllocationId]
    ) -> None:
        taken = set(accepted)
        for allocation in taken:
            if self._slots.use_of(allocation) is SlotUse.RESERVED:
                self._slots.activate(allocation, self._loop_time())
        self._free([each for each in offered if each not in taken], "its job master declined it")

    def outcome_acknowledged(self, task: HeldTask) -> None:
        self._tasks.pop(task.attempt, None)
        self._finish_release(task.deployment.allocation)
        self._close_link_when_unused(task.job_id)

    def slots_returned(self, job_id: JobId, slots: Iterable[AllocationId]) -> None:
        own = (each for each in slots if self._slots.job_of(each) == job_id)
        self._free_idle(own, "no longer needed")

    def cancel(self, attempt: AttemptId, reason: str) -> None:
        held = self._tasks.get(attempt)
        if held is not None:
            self._runs.cancel(held, reason)

    def abandon_job(self, job_id: JobId, reason: str) -> None:
        for task in self.tasks(job_id):
            self._runs.cancel(task, reason)
        self._free([held.id for held in self._slots.of_job(job_id)], reason)

    async def begin(self) -> None:
        """Before anybody can send a task."""
        await self._runs.begin()

    def restore_slots(self) -> None:
        """Before it registers, so that its report says whose they are (TM-22)."""
        for job_id in self._slots.restore(self._loop_time()):
            log.info("a slot of job %s is offered to it again", job_id)
            self._link_to(job_id)

    def forget_slots(self) -> None:
        """It leaves in good order: its jobs go on elsewhere."""
        self._slots.forget_all()

    async def end_tasks(self, reason: str) -> None:
        """Nothing runs here any more when this returns, and nothing will."""
        self._stopping = True
        tasks = list(self._tasks.values())
        for task in tasks:
            # Through no fault of its job: it begins again elsewhere, whatever may be restarted.
            task.is_moving = task.cancel_reason is None
            self._runs.cancel(task, reason)
        await asyncio.gather(*(task.over.wait() for task in tasks))

    async def wait_until_recorded(self) -> None:
        """Nobody has to guess from then on how the attempts here ended."""
        await asyncio.gather(*(task.recorded.wait() for task in list(self._tasks.values())))

    # Slots

    def _tasks_of_slot(self, allocation: AllocationId) -> list[HeldTask]:
        return [task for task in self._tasks.values() if task.deployment.allocation == allocation]

    def _is_busy(self, allocation: AllocationId) -> bool:
        return any(task.outcome is None for task in self._tasks_of_slot(allocation))

    def _free_idle(self, allocations: Iterable[AllocationId], reason: str) -> None:
        self._free([each for each in allocations if not self._is_busy(each)], reason)

    def _free(self, allocations: Iterable[AllocationId], reason: str) -> None:
        freed = False
        for allocation in list(allocations):
            for task in self._tasks_of_slot(allocation):
                self._runs.cancel(task, f"its slot was freed: {reason}")
                if task.outcome is not None:
                    # On record in the storage: whoever asks for it later finds it there.
                    del self._tasks[task.attempt]
            if self._is_busy(allocation):
                self._slots.release(allocation)
                continue
            job_id = self._slots.job_of(allocation)
            freed = self._slots.free(allocation) or freed
            if job_id is not None:
                self._close_link_when_unused(job_id)
        if freed and not self._stopping:
            self.scope.spawn("tell slots", self.manager.report_slots())

    def _finish_release(self, allocation: AllocationId) -> None:
        if self._slots.use_of(allocation) is SlotUse.RELEASING:
            self._free([allocation], "its task has ended")

    def _changed(self, held: HeldTask) -> None:
        if held.outcome is not None:
            self._finish_release(held.deployment.allocation)
        if (link := self._links.get(held.job_id)) is not None:
            link.wake()

    # Jobs

    def _link_to(self, job_id: JobId) -> JobLink:
        if (link := self._links.get(job_id)) is not None:
            return link
        services = self._services
        link = JobLink(
            job_id=job_id,
            rpc=services.rpc,
            identity=self._identity,
            holdings=self,
            retrieval=LeaderRetrieval(services.coordinator, job_component(job_id)),
            options=services.options,
            lease=services.lease,
            handshake=self._acquaintance,
        )
        self._links[job_id] = link
        services.tasks.blobs.register(job_id)
        self._link_tasks[job_id] = self.scope.spawn(f"link {job_id}", self._run_link(link))
        return link

    async def _run_link(self, link: JobLink) -> None:
        async with TaskScope(f"job {link.job_id}") as scope:
            scope.spawn("retrieval", link.retrieval.run())
            await link.run()

    def _close_link_when_unused(self, job_id: JobId) -> None:
        """The last slot and the last outcome are gone: nothing of the job is here (TM-18)."""
        if self._slots.of_job(job_id) or self.tasks(job_id) or job_id not in self._links:
            return
        del self._links[job_id]
        # Not from within the link's own call, which may be the one that asks.
        asyncio.get_running_loop().call_soon(self._link_tasks.pop(job_id).cancel)
        self._services.tasks.blobs.release(job_id)

    # Leases, while no job master renews them

    def _last_epoch(self) -> int | None:
        tokens = [link.token for link in self._links.values()]
        return max((token.epoch for token in tokens if token is not None), default=None)

    def _first_expiry(self) -> float | None:
        return earliest(task.lease_until for task in self._tasks.values() if task.outcome is None)

    def _renew_leases(self, asked_at: float, jobs: Collection[JobId] | None = None) -> None:
        for job_id, link in self._links.items():
            if jobs is None or job_id in jobs:
                link.renew_leases_from(asked_at)

    def _jobs_expiring_before(self, moment: float) -> tuple[JobId, ...]:
        running = [task for task in self._tasks.values() if task.outcome is None]
        return tuple({task.job_id: None for task in running if task.lease_until < moment})

    # Time passes

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()

    async def run_checks(self) -> None:
        """Free slots that nobody takes, end attempts whose lease has run out."""
        while True:
            await asyncio.sleep(1.0)
            now = self._loop_time()
            timeout = self._services.options.slot_timeout.total_seconds()
            overdue = (held.id for held in self._slots.overdue(now, timeout))
            self._free_idle(overdue, f"no job master took it within {timeout:.0f} s")
            self._advance_drain()
            # Begun a margin early: a task that is asked to end takes its time, and must be gone
            # when the lease is over.
            margin = self._services.lease.margin.total_seconds()
            for task in list(self._tasks.values()):
                if task.outcome is None and now >= task.lease_until - margin:
                    self._runs.cancel(task, "its lease has run out")
