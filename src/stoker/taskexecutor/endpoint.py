"""The task executor: runs attempts in slots, as commanded by job masters.

Several leaders may command one task executor, and each of them can be out of date. The resource
manager reserves slots; it must be the one at which this task executor is registered. Only the
master of a job starts, cancels and suspends attempts of that job; its fencing token must be the
newest one seen here. A command that is repeated does no harm.
"""

import asyncio
import logging
from collections.abc import Collection

from stoker.aio.scope import TaskScope
from stoker.core.errors import NotFound
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
from stoker.metrics.catalogue import LEASES_RENEWED
from stoker.rpc.service import Endpoint
from stoker.taskexecutor.child_processes import ChildProcesses
from stoker.taskexecutor.draining import Draining
from stoker.taskexecutor.executor_metrics import measure_engine, measure_holdings
from stoker.taskexecutor.holdings import JobHoldings
from stoker.taskexecutor.job_link import ExecutorIdentity, JobLink, MasterHandshake
from stoker.taskexecutor.leases import LeaseKeeper
from stoker.taskexecutor.resource_manager_link import ResourceManagerLink
from stoker.taskexecutor.services import TaskExecutorServices
from stoker.taskexecutor.suspensions import Suspensions

log = logging.getLogger(__name__)

TASK_EXECUTOR = "task_executor"


class TaskExecutor(Endpoint):
    gateway = TaskExecutorGateway

    def __init__(self, services: TaskExecutorServices) -> None:
        # The address contains the instance, so that a call meant for a previous instance fails
        # and never reaches its successor.
        super().__init__(f"{TASK_EXECUTOR}-{services.instance}")
        self._services = services
        self.scope = TaskScope("task-executor")
        self.task_scope = TaskScope("tasks")
        """Separate from `scope`, so that tasks end in order when `scope` fails."""
        self._holdings = JobHoldings(
            services,
            self.task_scope,
            on_change=self._wake_link,
            on_slot_freed=self._report_slots,
            on_nothing_left=self._close_link,
        )
        self._renewals = services.metrics.counter(LEASES_RENEWED)
        self._links: dict[JobId, JobLink] = {}
        self._link_tasks: dict[JobId, asyncio.Task[None]] = {}
        self._handshake = MasterHandshake()
        self._suspensions = Suspensions(services.tasks.work_dir)
        self.address = f"{services.rpc.address}/{self.name}"
        self._identity = ExecutorIdentity(services.resource_id, services.instance, self.address)
        self._draining = Draining()
        self.drained = asyncio.Event()
        """Set when a drain has ended and the process may stop."""
        self.manager_leader = LeaderRetrieval(services.coordinator, "resource_manager")
        self.manager = ResourceManagerLink(
            rpc=services.rpc,
            retrieval=self.manager_leader,
            registration=self.introduction,
            heartbeat=services.heartbeat,
            metrics=services.metrics,
            retries=services.registration,
        )
        self.masters = MasterDirectory(services.coordinator)
        self.leases = LeaseKeeper(
            rpc=services.rpc,
            coordinator=services.coordinator,
            masters=self.masters,
            options=services.lease,
            last_epoch=self._last_epoch,
            first_expiry=self._holdings.first_expiry,
            renew=self._renew_leases,
            jobs_expiring_before=self._holdings.jobs_expiring_before,
            renewals=self._renewals,
        )
        self.children = ChildProcesses(lambda: services.tasks.engine.figures)
        measure_holdings(services.metrics, self._holdings)
        measure_engine(services.metrics, services.tasks.engine, self.children)

    def introduction(self) -> TaskExecutorRegistration:
        services = self._services
        return TaskExecutorRegistration(
            resource_id=services.resource_id,
            instance=services.instance,
            address=self.address,
            report=self._holdings.slots.report(),
            host=services.host,
            pid=services.pid,
            cores=services.cores,
            memory_bytes=services.memory_bytes,
            engine=dict(services.tasks.engine.description),
            on_demand=services.on_demand,
            draining=self._draining.is_draining,
            metrics_url=services.metrics_url,
        )

    @property
    def is_idle(self) -> bool:
        return not self._holdings.all_tasks()

    async def prepare(self) -> None:
        """Archive the logs that a previous instance left; runs before the first task can arrive."""
        await self._holdings.runs.prepare()

    def restore_slots(self) -> None:
        """Reserve the slots of the previous instance, so that the registration reports them."""
        for job_id in self._holdings.slots.restore(self._loop_time()):
            log.info("a slot of job %s is offered to it again", job_id)
            self._link_to(job_id)

    async def run_checks(self) -> None:
        """Each second, free overdue slots, advance a drain, and cancel attempts out of lease."""
        while True:
            await asyncio.sleep(1.0)
            self._holdings.free_overdue()
            self._advance_drain()
            self._holdings.cancel_expired(self._services.lease.margin.total_seconds())

    async def end_tasks(self, reason: str) -> None:
        await self._holdings.end_tasks(reason)

    async def wait_until_recorded(self) -> None:
        await self._holdings.wait_until_recorded()

    def forget_slots(self) -> None:
        """Remove the record of the slots, because the jobs continue elsewhere."""
        self._holdings.slots.remove_all_records()

    def request_slot(self, token: FencingToken, request: SlotRequest) -> None:
        self.manager.check(token)
        self._draining.check_accepting(request.allocation)
        self._holdings.slots.reserve(
            request.job_id, request.allocation, request.slot, self._loop_time()
        )
        self._link_to(request.job_id).wake()

    def heartbeat_from_resource_manager(self, token: FencingToken) -> SlotReport:
        return self.manager.heartbeat_arrived(token)

    def drain(self, token: FencingToken, seconds: float | None) -> None:
        self.manager.check(token)
        log.info("draining: no new tasks are accepted")
        self._draining.begin(self._loop_time(), seconds)
        self._advance_drain()

    def _advance_drain(self) -> None:
        now = self._loop_time()
        for task in self._draining.tasks_to_move(self._holdings.all_tasks(), now):
            task.is_moving = True
            self._holdings.runs.cancel(
                task, "the task executor drains, and the task starts again elsewhere"
            )
        if self._draining.is_draining:
            self._holdings.free_empty("the task executor drains")
        if self._draining.is_over(self._holdings.all_tasks(), now):
            self.drained.set()

    def free_inactive_slots(self, token: FencingToken, job_id: JobId) -> None:
        self.manager.check(token)
        self._holdings.free_idle(
            self._holdings.reserved(job_id), "the resource manager reclaims it"
        )

    def disconnect_resource_manager(self, token: FencingToken, reason: str) -> None:
        self.manager.disconnected(token, reason)

    def submit_task(self, token: FencingToken, deployment: TaskDeployment) -> None:
        job_id = deployment.graph.job_id
        link = self._link_commanded_by(job_id, token)
        self._holdings.check_slot(deployment.allocation, job_id)
        if deployment.attempt in link.seen_attempts:
            return
        self._draining.check_accepting(deployment.allocation)
        self._holdings.start_task(deployment, link.lease_under(token))
        link.seen_attempts.add(deployment.attempt)

    def cancel_task(self, token: FencingToken, job_id: JobId, attempt: AttemptId) -> None:
        self._link_commanded_by(job_id, token).seen_attempts.add(attempt)
        self._holdings.cancel(attempt, "its job master requested it")

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
        task = self._holdings.task(attempt)
        self._suspensions.suspend(task, order, limit_seconds, hold_seconds)

    def suspension(
        self, token: FencingToken, job_id: JobId, attempt: AttemptId, order: str
    ) -> Suspension:
        self._link_commanded_by(job_id, token)
        return self._suspensions.state_of(self._holdings.task(attempt), order)

    def decide_suspended(
        self, token: FencingToken, job_id: JobId, attempt: AttemptId, order: str, finish: bool
    ) -> None:
        self._link_commanded_by(job_id, token)
        self._suspensions.decide(self._holdings.task(attempt), order, finish)

    def free_slots(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...], reason: str
    ) -> None:
        self._link_commanded_by(job_id, token)
        slots = self._holdings.slots
        self._holdings.free((each for each in allocations if slots.job_of(each) == job_id), reason)

    def heartbeat_from_job_master(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AttemptId, ...]:
        self._link_commanded_by(job_id, token)
        self._holdings.free_surplus(job_id, allocations)
        return tuple(task.attempt for task in self._holdings.tasks(job_id))

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        return await self._holdings.runs.logs.read(job_id, attempt, stream, offset)

    def _link_commanded_by(self, job_id: JobId, token: FencingToken) -> JobLink:
        link = self._links.get(job_id)
        if link is None:
            raise NotFound(f"this task executor holds nothing of job {job_id}", job_id=job_id)
        link.check(token)
        return link

    def _link_to(self, job_id: JobId) -> JobLink:
        if (link := self._links.get(job_id)) is not None:
            return link
        services = self._services
        link = JobLink(
            job_id=job_id,
            rpc=services.rpc,
            identity=self._identity,
            holdings=self._holdings,
            retrieval=LeaderRetrieval(services.coordinator, job_component(job_id)),
            options=services.options,
            lease=services.lease,
            handshake=self._handshake,
            renewals=self._renewals,
        )
        self._links[job_id] = link
        services.tasks.blobs.register(job_id)
        self._link_tasks[job_id] = self.scope.spawn(f"link {job_id}", self._run_link(link))
        return link

    async def _run_link(self, link: JobLink) -> None:
        async with TaskScope(f"job {link.job_id}") as scope:
            scope.spawn("retrieval", link.retrieval.run())
            await link.run()

    def _wake_link(self, job_id: JobId) -> None:
        if (link := self._links.get(job_id)) is not None:
            link.wake()

    def _close_link(self, job_id: JobId) -> None:
        if self._links.pop(job_id, None) is None:
            return
        # Not from within a call of the link, which may be the cause: it would cancel itself.
        asyncio.get_running_loop().call_soon(self._link_tasks.pop(job_id).cancel)
        self._services.tasks.blobs.release(job_id)

    def _report_slots(self) -> None:
        self.scope.spawn("report slots", self.manager.report_slots())

    def _last_epoch(self) -> int | None:
        tokens = [link.token for link in self._links.values()]
        return max((token.epoch for token in tokens if token is not None), default=None)

    def _renew_leases(self, asked_at: float, jobs: Collection[JobId] | None = None) -> None:
        for job_id, link in self._links.items():
            if jobs is None or job_id in jobs:
                link.renew_leases_from(asked_at)

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()
