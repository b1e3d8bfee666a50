"""Fake parts of a cluster that record their calls, for tests of the other parts."""

from stoker.core.ids import AllocationId, AttemptId, InstanceId, JobId, ResourceId, SessionId
from stoker.core.results import AttemptOutcome
from stoker.core.states import JobStatus
from stoker.core.values import FencingToken
from stoker.gateways.jobmaster import (
    AdmissionAnswer,
    Admitted,
    AttemptProgress,
    AttemptReport,
    JobMasterGateway,
    TaskExecutorIntroduction,
)
from stoker.gateways.resourcemanager import (
    Declined,
    JobMasterRegistration,
    Registered,
    RegistrationAnswer,
    ResourceManagerGateway,
    ResourceOverview,
    ResourceRequirements,
    SlotReport,
    SlotStatus,
    TaskExecutorDetails,
    TaskExecutorRegistration,
    WaitReason,
)
from stoker.gateways.taskexecutor import SlotRequest, TaskDeployment, TaskExecutorGateway
from stoker.rpc.service import Endpoint

JOB = JobId("1" * 32)
MASTER = FencingToken(epoch=3, session=SessionId("m" * 32))


class FakeExecutor(Endpoint):
    gateway = TaskExecutorGateway

    def __init__(self) -> None:
        super().__init__("task_executor")
        self.requests: list[SlotRequest] = []
        self.disconnected: list[str] = []
        self.drained: list[float | None] = []
        self.held: dict[int, SlotRequest] = {}
        self.reclaimed: list[JobId] = []

    def report(self) -> SlotReport:
        return SlotReport(
            slots=tuple(
                SlotStatus(index=i, job_id=self.held[i].job_id, allocation=self.held[i].allocation)
                if i in self.held
                else SlotStatus(index=i)
                for i in range(2)
            )
        )

    def request_slot(self, token: FencingToken, request: SlotRequest) -> None:
        self.requests.append(request)
        self.held[request.slot] = request

    def heartbeat_from_resource_manager(self, token: FencingToken) -> SlotReport:
        return self.report()

    def drain(self, token: FencingToken, seconds: float | None) -> None:
        self.drained.append(seconds)

    def disconnect_resource_manager(self, token: FencingToken, reason: str) -> None:
        self.disconnected.append(reason)

    def free_inactive_slots(self, token: FencingToken, job_id: JobId) -> None:
        self.reclaimed.append(job_id)
        self.held = {i: each for i, each in self.held.items() if each.job_id != job_id}

    def submit_task(self, token: FencingToken, deployment: TaskDeployment) -> None: ...

    def cancel_task(self, token: FencingToken, job_id: JobId, attempt: AttemptId) -> None: ...

    def free_slots(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...], reason: str
    ) -> None: ...

    def heartbeat_from_job_master(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AttemptId, ...]:
        return ()


class FakeMaster(Endpoint):
    gateway = JobMasterGateway

    def __init__(self, token: FencingToken = MASTER) -> None:
        super().__init__(f"job-{JOB}", token=token)
        self.lost: list[InstanceId] = []
        self.introductions: list[TaskExecutorIntroduction] = []
        self.declined: Declined | None = None
        self.accepts = True
        self.knows = True
        self.renews = True
        self.renewals: list[tuple[AttemptId, ...]] = []
        self.offered: list[AllocationId] = []
        self.changes: list[AttemptReport] = []
        self.outcomes: list[AttemptOutcome] = []
        self.gives_back: tuple[AllocationId, ...] = ()

    def register_task_executor(self, introduction: TaskExecutorIntroduction) -> AdmissionAnswer:
        self.introductions.append(introduction)
        if self.declined is not None:
            return self.declined
        return Admitted(accepted=self.offer_slots(introduction.instance, introduction.offered))

    def offer_slots(
        self, instance: InstanceId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AllocationId, ...]:
        self.offered += allocations
        return allocations if self.accepts else ()

    def attempt_changed(self, report: AttemptReport) -> bool:
        self.changes.append(report)
        return self.knows

    def attempt_ended(
        self, instance: InstanceId, outcome: AttemptOutcome, before: AttemptReport | None
    ) -> tuple[AllocationId, ...]:
        if before is not None:
            self.changes.append(before)
        self.outcomes.append(outcome)
        return self.gives_back

    def attempts_progressed(
        self, instance: InstanceId, reports: tuple[AttemptProgress, ...]
    ) -> None: ...

    def renew_leases(
        self, instance: InstanceId, attempts: tuple[AttemptId, ...]
    ) -> tuple[AttemptId, ...]:
        self.renewals.append(attempts)
        return attempts if self.renews else ()

    def task_executor_lost(
        self, resource_id: ResourceId, instance: InstanceId, reason: str
    ) -> None:
        self.lost.append(instance)

    def heartbeat_from_resource_manager(self) -> None: ...


class FakeManager(Endpoint):
    gateway = ResourceManagerGateway

    def __init__(self, token: FencingToken) -> None:
        super().__init__("resource_manager", token=token)
        self.registrations: list[TaskExecutorRegistration] = []
        self.reports: list[SlotReport] = []
        self.left: list[InstanceId] = []

    def register_task_executor(self, registration: TaskExecutorRegistration) -> RegistrationAnswer:
        self.registrations.append(registration)
        return Registered()

    def task_executor_leaves(self, instance: InstanceId, reason: str) -> None:
        self.left.append(instance)

    def slot_freed(self, instance: InstanceId, report: SlotReport) -> None:
        self.reports.append(report)

    def register_job_master(self, registration: JobMasterRegistration) -> RegistrationAnswer:
        return Registered()

    def declare_requirements(self, requirements: ResourceRequirements) -> None: ...

    def job_master_leaves(self, job_id: JobId, token: FencingToken, status: JobStatus) -> None: ...

    def wait_reason(self, job_id: JobId) -> WaitReason | None:
        return None

    def drain_task_executor(self, resource_id: ResourceId, seconds: float | None) -> None: ...

    def overview(self) -> ResourceOverview:
        return ResourceOverview()

    def task_executors(self) -> list[TaskExecutorDetails]:
        return []
