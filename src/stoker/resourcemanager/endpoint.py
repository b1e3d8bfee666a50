"""The resource manager: registers task executors and assigns their slots to jobs.

The resource manager stores nothing. After a change of leader it learns everything again from
registrations: task executors report their slots, and job masters declare what they need. A report
may be out of date in either direction, so the task executor decides whether a slot request stands.
"""

import asyncio
import logging
from collections.abc import Awaitable
from datetime import timedelta

import msgspec

from stoker.aio.scope import TaskScope
from stoker.core.errors import NotFound, StokerError
from stoker.core.ids import InstanceId, JobId, ResourceId
from stoker.core.states import JobStatus
from stoker.core.values import FencingToken
from stoker.events.event import EventKind
from stoker.events.intake import EventRecorder
from stoker.gateways.jobmaster import JobMasterGateway
from stoker.gateways.resourcemanager import (
    RESOURCE_MANAGER,
    Declined,
    JobMasterRegistration,
    Registered,
    RegistrationAnswer,
    ResourceManagerGateway,
    ResourceOverview,
    ResourceRequirements,
    SlotReport,
    TaskExecutorDetails,
    TaskExecutorRegistration,
    WaitReason,
)
from stoker.gateways.taskexecutor import SlotRequest, TaskExecutorGateway
from stoker.heartbeat.monitor import Liveness
from stoker.heartbeat.service import HeartbeatSender
from stoker.metrics.catalogue import EXECUTORS_LOST
from stoker.resourcemanager.provider import EndedExecutor, slot_profile
from stoker.resourcemanager.registrations import (
    JobLeaders,
    RegisteredExecutor,
    RegisteredJobMaster,
    idle_executors,
)
from stoker.resourcemanager.scaling import executors_to_release
from stoker.resourcemanager.services import ResourceManagerServices
from stoker.resourcemanager.slots import SlotAssignment, SlotManager
from stoker.resourcemanager.supply import ExecutorSupply
from stoker.resourcemanager.wait_reason import wait_reason_of
from stoker.rpc.service import Endpoint

log = logging.getLogger(__name__)

DUPLICATE_TIMEOUT = timedelta(seconds=2)


class ResourceManager(Endpoint):
    gateway = ResourceManagerGateway

    def __init__(self, services: ResourceManagerServices, token: FencingToken) -> None:
        super().__init__(RESOURCE_MANAGER, token=token)
        self._token = token
        self._services = services
        self._record = EventRecorder(services.events, token.epoch, services.wall_clock)
        self._slots = SlotManager(services.ids, services.options.rules)
        self._executors: dict[InstanceId, RegisteredExecutor] = {}
        self._newest: dict[ResourceId, InstanceId] = {}
        self._masters: dict[JobId, RegisteredJobMaster] = {}
        self._lost = services.metrics.counter(EXECUTORS_LOST)
        self._leaders = JobLeaders(services.options.job_timeout)
        self.scope = TaskScope("resource-manager")
        self._supply = ExecutorSupply(
            services.provider,
            services.options,
            self.scope,
            on_end=self._on_provided_executor_ended,
            on_room=self._assign,
        )
        self.executor_beats: HeartbeatSender[None, SlotReport] = HeartbeatSender(
            "resource manager to task executors",
            services.heartbeat,
            own_payload=lambda _: None,
            on_payload=self._on_slot_report,
            on_lost=self._on_executor_silent,
            metrics=services.metrics,
        )
        self.master_beats: HeartbeatSender[None, None] = HeartbeatSender(
            "resource manager to job masters",
            services.heartbeat,
            own_payload=lambda _: None,
            on_payload=lambda _origin, _payload: None,
            on_lost=self._on_master_silent,
            metrics=services.metrics,
        )

    def begin(self) -> None:
        """Start the checks; the scope must be open."""
        self._supply.begin()
        self.scope.spawn("checks", self._run_checks())
        self._assign()

    async def _run_checks(self) -> None:
        """Look for idle and overdue task executors and for jobs without a master."""
        while True:
            await asyncio.sleep(self._services.options.check_interval.total_seconds())
            for job_id in self._leaders.expired(self._now()):
                log.warning(
                    "job %s had no master for too long; its slot requirements are dropped", job_id
                )
                self._leaders.forget(job_id)
                self._slots.declare(job_id, 0)
            self._supply.stop_overdue()
            self._release_idle()
            self._assign()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def register_task_executor(
        self, registration: TaskExecutorRegistration
    ) -> RegistrationAnswer:
        if (namesake := await self._live_duplicate(registration)) is not None:
            return Declined(
                reason=f"a task executor with the resource id {registration.resource_id} is "
                f"already running at {namesake}; give each one a taskmanager.resource-id of its "
                "own, or stop the other first",
                final=True,
            )
        # The newest registration of a resource id counts; an overtaken one is declined.
        self._newest[registration.resource_id] = registration.instance
        try:
            gateway = await self._services.rpc.connect(registration.address, TaskExecutorGateway)
        except StokerError as error:
            return Declined(reason=f"cannot reach you at {registration.address}: {error}")
        if self._newest.get(registration.resource_id) != registration.instance:
            return Declined(reason="another instance registered meanwhile", final=True)
        self._drop_previous_instances(registration)
        instance = registration.instance
        if (before := self._executors.get(instance)) is not None:
            before.watch.cancel()
        self._executors[instance] = RegisteredExecutor(
            registration,
            gateway,
            self._services.wall_clock(),
            self.scope.spawn(f"watch {instance}", self._watch(instance, registration.address)),
            self._now(),
        )
        self._supply.registered(registration.resource_id)
        slots = len(registration.report.slots)
        self._slots.register(
            instance,
            registration.report,
            slot_profile(registration.cores, registration.memory_bytes, slots),
            draining=registration.draining,
        )
        self.executor_beats.monitor_target(instance, lambda _: self._heartbeat(gateway))
        log.info(
            "task executor %s registered with %d slots at %s",
            registration.resource_id,
            len(registration.report.slots),
            registration.address,
        )
        self._record_registration(registration)
        self._assign()
        return Registered()

    def _record_registration(self, registration: TaskExecutorRegistration) -> None:
        slots = len(registration.report.slots)
        host = registration.host or registration.address
        self._record(
            EventKind.EXECUTOR_REGISTERED,
            f"task executor {registration.resource_id} registered with {slots} slots at {host}",
            data={
                "executor": registration.resource_id,
                "instance": registration.instance,
                "slots": slots,
                "host": host,
            },
        )

    async def _live_duplicate(self, registration: TaskExecutorRegistration) -> str | None:
        """Address of another live process with the same id: they would replace each other."""
        for instance, known in list(self._executors.items()):
            other = known.registration
            if other.resource_id != registration.resource_id or instance == registration.instance:
                continue
            if other.address == registration.address:
                # The registering process reuses the address of a dead one.
                continue
            try:
                await self._services.rpc.connect(
                    other.address, TaskExecutorGateway, timeout=DUPLICATE_TIMEOUT
                )
            except StokerError:
                continue
            if instance in self._executors:
                return other.address
        return None

    def _drop_previous_instances(self, registration: TaskExecutorRegistration) -> None:
        for instance, known in list(self._executors.items()):
            same = known.registration.resource_id == registration.resource_id
            if same and instance != registration.instance:
                self._remove_executor(instance, "it was started again")

    async def _heartbeat(self, gateway: TaskExecutorGateway) -> SlotReport:
        return await gateway.heartbeat_from_resource_manager(self._token)

    async def _watch(self, instance: InstanceId, address: str) -> None:
        while True:
            await self._services.rpc.wait_until_gone(address)
            self.executor_beats.poke(instance)
            await asyncio.sleep(self._services.heartbeat.interval.total_seconds())

    def _on_slot_report(self, instance: str, report: SlotReport) -> None:
        known = self._executors.get(InstanceId(instance))
        if known is None:
            return
        known.last_heartbeat_at = self._services.wall_clock()
        self._slots.report(InstanceId(instance), report)
        self._assign()

    def _on_executor_silent(self, instance: str, liveness: Liveness) -> None:
        self._remove_executor(InstanceId(instance), f"heartbeat: {liveness.value}")

    def _remove_executor(self, instance: InstanceId, reason: str) -> None:
        known = self._executors.pop(instance, None)
        if known is None:
            return
        resource_id = known.registration.resource_id
        log.warning("task executor %s is lost: %s", resource_id, reason)
        self._lost.increment()
        self._record(
            EventKind.EXECUTOR_LOST,
            f"task executor {resource_id} is gone: {reason}",
            data={"executor": resource_id, "instance": instance, "reason": reason},
        )
        known.watch.cancel()
        self.executor_beats.unmonitor_target(instance)
        self._slots.unregister(instance)
        for job_id, master in self._masters.items():
            self.scope.spawn(
                f"notify {job_id}",
                _best_effort(master.gateway.task_executor_lost(resource_id, instance, reason)),
            )
        self.scope.spawn(
            f"disconnect {instance}",
            _best_effort(known.gateway.disconnect_resource_manager(self._token, reason)),
        )
        self._assign()

    def task_executor_leaves(self, instance: InstanceId, reason: str) -> None:
        self._remove_executor(instance, f"it deregistered: {reason}")

    async def drain_task_executor(self, resource_id: ResourceId, seconds: float | None) -> None:
        for instance, known in self._executors.items():
            if known.registration.resource_id == resource_id:
                self._slots.drain(instance)
                await known.gateway.drain(self._token, seconds)
                self._record_draining(known, "it was asked to drain")
                return
        raise NotFound(
            f"no task executor with id {resource_id} is registered; GET /taskmanagers lists those "
            "that are",
            resource_id=resource_id,
        )

    def _release_idle(self) -> None:
        options = self._services.options
        idle = idle_executors(self._executors.values(), self._slots, self._now())
        slots = max((each.slots for each in idle), default=0)
        spare = options.spare_executors * slots if self._slots.is_wanted else 0
        for instance in executors_to_release(
            idle,
            free=self._slots.overview().slots_free,
            reserve=spare,
            now=self._now(),
            timeout=options.idle_timeout,
        ):
            known = self._executors[instance]
            log.info("releasing idle task executor %s", known.registration.resource_id)
            self._record_draining(known, "it was idle")
            self._slots.drain(instance)
            self.scope.spawn(f"release {instance}", self._release(instance))

    def _record_draining(self, known: RegisteredExecutor, reason: str) -> None:
        registration = known.registration
        self._record(
            EventKind.EXECUTOR_DRAINING,
            f"task executor {registration.resource_id} drains: {reason}",
            data={
                "executor": registration.resource_id,
                "instance": registration.instance,
                "reason": reason,
            },
        )

    async def _release(self, instance: InstanceId) -> None:
        """Repeat the request until it is answered: the slots here are lost to jobs already."""
        while (known := self._executors.get(instance)) is not None:
            try:
                await known.gateway.drain(self._token, 0.0)
            except StokerError as error:
                log.info("%s is not released yet: %s", known.registration.resource_id, error)
                await asyncio.sleep(self._services.options.check_interval.total_seconds())
            else:
                return

    def _on_provided_executor_ended(self, ended: EndedExecutor) -> None:
        """The provider notices the end of a process sooner than a heartbeat does."""
        for instance, known in list(self._executors.items()):
            if known.registration.resource_id == ended.resource_id:
                self._remove_executor(instance, ended.reason)

    def slot_freed(self, instance: InstanceId, report: SlotReport) -> None:
        self._slots.report(instance, report)
        self._assign()

    async def register_job_master(self, registration: JobMasterRegistration) -> RegistrationAnswer:
        if registration.token.epoch != self._token.epoch:
            return Declined(
                reason=f"epoch {registration.token.epoch} is not the current {self._token.epoch}",
                final=True,
            )
        try:
            gateway = await self._services.rpc.connect(
                registration.address, JobMasterGateway, token=registration.token
            )
        except StokerError as error:
            return Declined(reason=f"cannot reach you at {registration.address}: {error}")
        self._masters[registration.job_id] = RegisteredJobMaster(registration, gateway)
        self._leaders.set_leader(registration.job_id, registration.token)
        self.master_beats.monitor_target(
            registration.job_id, lambda _: gateway.heartbeat_from_resource_manager()
        )
        if registration.requirements is not None:
            self.declare_requirements(registration.requirements)
        return Registered()

    def declare_requirements(self, requirements: ResourceRequirements) -> None:
        if not self._leaders.is_leader(requirements.job_id, requirements.token):
            # An error, so that a master that was dropped without its knowledge registers again.
            raise NotFound(f"this master of job {requirements.job_id} is not registered here")
        self._slots.declare(
            requirements.job_id,
            requirements.slots,
            held=requirements.held,
            together=requirements.together,
            priority=requirements.priority,
            profile=requirements.profile,
            now=self._now(),
        )
        self._assign()

    def job_master_leaves(self, job_id: JobId, token: FencingToken, status: JobStatus) -> None:
        if not self._leaders.is_leader(job_id, token):
            return
        del self._masters[job_id]
        self.master_beats.unmonitor_target(job_id)
        self._leaders.leader_lost(job_id, self._now())
        if status.globally_terminal:
            self._leaders.forget(job_id)
            self._slots.declare(job_id, 0)
            self.scope.spawn(f"reclaim {job_id}", self._reclaim(job_id))

    async def _reclaim(self, job_id: JobId) -> None:
        """Reclaim slots that were on their way when the job ended; its master returned the rest."""
        await asyncio.sleep(self._services.options.slot_retry_delay.total_seconds())
        for instance, known in list(self._executors.items()):
            if job_id in self._slots.jobs_on(instance):
                await _best_effort(known.gateway.free_inactive_slots(self._token, job_id))

    def _on_master_silent(self, job_id: str, liveness: Liveness) -> None:
        # The requirements of the job are retained, because it continues under its next master.
        self._masters.pop(JobId(job_id), None)
        self._leaders.leader_lost(JobId(job_id), self._now())
        log.warning("no heartbeat from the master of job %s (%s)", job_id, liveness.value)

    def _assign(self) -> None:
        # A job without a master keeps its requirements, but nobody could accept its slots.
        for assignment in self._slots.assign(self._masters, self._now()):
            self.scope.spawn(f"slot {assignment.allocation}", self._request(assignment))
        # With thousands of waiting jobs it is expensive to list the needs of all.
        if self._supply.has_room:
            self._supply.request(
                (need for need in self._slots.needs() if need.job_id in self._masters),
                self._slots.overview().slots_free,
                spare=self._services.options.spare_executors if self._slots.is_wanted else 0,
            )

    async def _request(self, assignment: SlotAssignment) -> None:
        known = self._executors.get(assignment.instance)
        request = SlotRequest(
            job_id=assignment.job_id, allocation=assignment.allocation, slot=assignment.slot
        )
        try:
            if known is None:
                return
            await known.gateway.request_slot(self._token, request)
        except StokerError as error:
            log.warning("slot request refused by %s: %s", assignment.instance, error)
            self._slots.refused(assignment)
            await asyncio.sleep(self._services.options.slot_retry_delay.total_seconds())
            self._assign()
        else:
            self._slots.acknowledged(assignment)

    def wait_reason(self, job_id: JobId) -> WaitReason | None:
        required = self._slots.requirement(job_id)
        staying = sum(
            known.registration.on_demand and not self._slots.is_draining(instance)
            for instance, known in self._executors.items()
        )
        return wait_reason_of(
            self._slots,
            job_id,
            startable=self._supply.startable(required.profile, staying) if required else 0,
            starting=self._supply.starting,
            draining=[
                known.registration.resource_id
                for instance, known in self._executors.items()
                if self._slots.is_draining(instance)
            ],
        )

    def draining(self) -> int:
        """Number of registered task executors that drain."""
        return sum(map(self._slots.is_draining, self._executors))

    def overview(self) -> ResourceOverview:
        return msgspec.structs.replace(self._slots.overview(), starting=self._supply.starting)

    def task_executors(self) -> list[TaskExecutorDetails]:
        return [known.details(self._slots) for known in self._executors.values()]


async def _best_effort(call: Awaitable[None]) -> None:
    """Await a notification that may fail; its recipient finds out by heartbeat."""
    try:
        await call
    except StokerError as error:
        log.debug("a notification was not delivered: %s", error)
