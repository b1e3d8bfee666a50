"""The slot manager: the state of all slots and the requirements of all jobs. No I/O, no clock.

This table can be out of date: a task executor knows which job has a slot, and a job master knows
how many slots it holds. But their reports can be older than what was just requested here.

Invariant: a slot goes to one job at a time. A slot is FREE, PENDING (requested from its task
executor, not yet answered) or ALLOCATED. A report of the task executor overrules this table, with
one exception: a PENDING slot stays PENDING when it is reported as free, because the report may be
older than the request.
"""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from enum import Enum

from stoker.core.graph import ResourceProfile
from stoker.core.ids import AllocationId, Ids, InstanceId, JobId
from stoker.gateways.resourcemanager import ResourceOverview, SlotReport
from stoker.resourcemanager.matching import FreeSlot, MatchingRules, Need, match


class SlotState(Enum):
    FREE = "free"
    PENDING = "pending"
    ALLOCATED = "allocated"


@dataclass
class Slot:
    index: int
    state: SlotState = SlotState.FREE
    job_id: JobId | None = None
    allocation: AllocationId | None = None
    declaration: int = 0
    """Number of the declaration for which the slot was assigned."""

    def free(self) -> None:
        self.state, self.job_id, self.allocation = SlotState.FREE, None, None
        self.declaration = 0

    def assign(self, state: SlotState, job_id: JobId, allocation: AllocationId) -> None:
        self.state, self.job_id, self.allocation = state, job_id, allocation


@dataclass
class ExecutorSlots:
    slots: list[Slot]
    profile: ResourceProfile
    """Resources of each slot."""
    draining: bool = False

    @property
    def used(self) -> int:
        return sum(slot.state is not SlotState.FREE for slot in self.slots)


@dataclass(frozen=True, kw_only=True)
class SlotAssignment:
    """A request to a task executor to give a slot to a job."""

    instance: InstanceId
    slot: int
    job_id: JobId
    allocation: AllocationId


@dataclass
class Requirement:
    """The last declaration of a job. It entitles the job to as many slots as it lacked then.

    A job master declines slots if it has found others since its declaration. A slot that comes
    back is therefore not assigned to the job again before its next declaration; otherwise it
    would go back and forth.
    """

    slots: int
    held: int
    """As the job master reports; it may still hold slots on task executors that are lost here."""
    number: int
    since: float
    """Time since which the job lacks slots."""
    together: int = 0
    priority: int = 0
    profile: ResourceProfile = ResourceProfile()
    credit: int = 0
    """Slots that may still be assigned for this declaration."""

    @property
    def least(self) -> int:
        """Number of slots in all below which the job cannot run anything."""
        return max(1, self.together)


@dataclass
class SlotManager:
    ids: Ids
    rules: MatchingRules = field(default_factory=MatchingRules)
    _executors: dict[InstanceId, ExecutorSlots] = field(default_factory=dict)
    _required: dict[JobId, Requirement] = field(default_factory=dict)
    _waiting: set[JobId] = field(default_factory=set)
    """Jobs that lack slots, updated job by job because thousands may wait."""
    _declarations: int = 0

    def register(
        self,
        instance: InstanceId,
        report: SlotReport,
        profile: ResourceProfile | None = None,
        *,
        draining: bool = False,
    ) -> None:
        """Register a task executor, or update one that is known."""
        if instance not in self._executors:
            slots = [Slot(status.index) for status in report.slots]
            self._executors[instance] = ExecutorSlots(slots, profile or ResourceProfile())
        self._executors[instance].draining |= draining
        self.report(instance, report)

    def unregister(self, instance: InstanceId) -> None:
        """Remove a task executor; its jobs lack the slots that they had there."""
        executor = self._executors.pop(instance, None)
        slots = executor.slots if executor else []
        for slot in slots:
            self._return_credit(slot.job_id)
        self._update_waiting({slot.job_id for slot in slots})

    def drain(self, instance: InstanceId) -> None:
        """Assign no more slots of this task executor; its jobs continue."""
        if instance in self._executors:
            self._executors[instance].draining = True

    def is_draining(self, instance: InstanceId) -> bool:
        executor = self._executors.get(instance)
        return executor is not None and executor.draining

    def report(self, instance: InstanceId, report: SlotReport) -> None:
        executor = self._executors.get(instance)
        slots = {slot.index: slot for slot in executor.slots} if executor else {}
        before = {slot.job_id for slot in slots.values()}
        for status in report.slots:
            slot = slots.get(status.index)
            if slot is None:
                continue
            if status.job_id is not None and status.allocation is not None:
                slot.assign(SlotState.ALLOCATED, status.job_id, status.allocation)
            elif slot.state is SlotState.ALLOCATED:
                self._slot_returned(slot)
        self._update_waiting(before | {slot.job_id for slot in slots.values()})

    def _slot_returned(self, slot: Slot) -> None:
        required = self._required.get(slot.job_id) if slot.job_id else None
        if required is not None and slot.declaration != required.number:
            required.credit += 1
        slot.free()

    def _return_credit(self, job_id: JobId | None) -> None:
        required = self._required.get(job_id) if job_id else None
        if required is not None:
            required.credit += 1

    def declare(
        self,
        job_id: JobId,
        slots: int,
        *,
        held: int = 0,
        together: int = 0,
        priority: int = 0,
        profile: ResourceProfile | None = None,
        now: float = 0.0,
    ) -> None:
        """Record how many slots a job needs in all and how many its master holds."""
        if slots <= 0:
            self._required.pop(job_id, None)
            self._waiting.discard(job_id)
            return
        before = self._required.get(job_id)
        lacked = before is not None and self.missing(job_id) > 0
        self._declarations += 1
        required = Requirement(
            slots=slots,
            held=held,
            number=self._declarations,
            since=before.since if before and lacked else now,
            together=together,
            priority=priority,
            profile=profile or ResourceProfile(),
        )
        self._required[job_id] = required
        required.credit = self.missing(job_id)
        self._update_waiting([job_id])

    def acknowledged(self, assignment: SlotAssignment) -> None:
        """The task executor granted a request; ignored if the slot has changed meanwhile."""
        slot = self._find(assignment)
        if slot is not None and slot.state is SlotState.PENDING:
            slot.state = SlotState.ALLOCATED

    def refused(self, assignment: SlotAssignment) -> None:
        slot = self._find(assignment)
        if slot is not None and slot.state is SlotState.PENDING:
            job_id = slot.job_id
            self._return_credit(job_id)
            slot.free()
            self._update_waiting([job_id])

    def _find(self, assignment: SlotAssignment) -> Slot | None:
        executor = self._executors.get(assignment.instance)
        for slot in executor.slots if executor else []:
            if slot.index == assignment.slot and slot.allocation == assignment.allocation:
                return slot
        return None

    def assign(self, ready: Container[JobId], now: float = 0.0) -> list[SlotAssignment]:
        """Assign free slots to ready jobs that lack some, by the rules of `matching`.

        A job is ready when it has a master to accept the slots.
        """
        free = [
            FreeSlot(instance=instance, index=slot.index, profile=executor.profile)
            for instance, executor in self._executors.items()
            for slot in executor.slots
            if slot.state is SlotState.FREE and not executor.draining
        ]
        if not free:
            return []
        matches = match(
            [need for need in self.needs() if need.job_id in ready],
            free,
            used={instance: executor.used for instance, executor in self._executors.items()},
            now=now,
            rules=self.rules,
        )
        return [self._give(each.job_id, each.slot) for each in matches]

    def _give(self, job_id: JobId, free: FreeSlot) -> SlotAssignment:
        slots = self._executors[free.instance].slots
        slot = next(slot for slot in slots if slot.index == free.index)
        allocation = self.ids.allocation()
        slot.assign(SlotState.PENDING, job_id, allocation)
        required = self._required[job_id]
        required.credit -= 1
        slot.declaration = required.number
        self._update_waiting([job_id])
        return SlotAssignment(
            instance=free.instance, slot=free.index, job_id=job_id, allocation=allocation
        )

    def needs(self) -> list[Need]:
        """How many slots may be assigned to each job that lacks some."""
        seen = Counter(slot.job_id for slot in self._slots())
        needs = []
        for job_id, required in self._required.items():
            held = max(seen[job_id], required.held)
            missing = min(required.slots - held, required.credit)
            if missing > 0:
                needs.append(
                    Need(
                        job_id=job_id,
                        missing=missing,
                        at_once=max(1, required.together - held),
                        held=held,
                        priority=required.priority,
                        since=required.since,
                        profile=required.profile,
                    )
                )
        return needs

    def _slots(self) -> Iterable[Slot]:
        return (slot for executor in self._executors.values() for slot in executor.slots)

    def held(self, job_id: JobId) -> int:
        """Slots of the job: as its master reports or as seen here, whichever is more."""
        seen = sum(slot.job_id == job_id for slot in self._slots())
        required = self._required.get(job_id)
        return max(seen, required.held) if required else seen

    def missing(self, job_id: JobId) -> int:
        required = self._required.get(job_id)
        return max(0, required.slots - self.held(job_id)) if required else 0

    def requirement(self, job_id: JobId) -> Requirement | None:
        return self._required.get(job_id)

    def others_waiting(self, job_id: JobId) -> int:
        return len(self._waiting) - (job_id in self._waiting)

    def _update_waiting(self, job_ids: Iterable[JobId | None]) -> None:
        """Update whether jobs lack slots, after any change of their needs or slots."""
        for job_id in job_ids:
            if job_id is None:
                continue
            if self.missing(job_id) > 0:
                self._waiting.add(job_id)
            else:
                self._waiting.discard(job_id)

    def jobs_on(self, instance: InstanceId) -> tuple[JobId, ...]:
        executor = self._executors.get(instance)
        jobs = {slot.job_id for slot in executor.slots if slot.job_id} if executor else set()
        return tuple(sorted(jobs))

    def slots_of(self, instance: InstanceId) -> tuple[int, int]:
        """Number of slots: total and free."""
        executor = self._executors.get(instance)
        if executor is None:
            return 0, 0
        return len(executor.slots), len(executor.slots) - executor.used

    def slots_fitting(self, profile: ResourceProfile) -> tuple[int, int]:
        """Number of slots, total and free, that fit the profile and are not draining."""
        fitting = [
            executor
            for executor in self._executors.values()
            if not executor.draining and profile.fits_into(executor.profile)
        ]
        total = sum(len(executor.slots) for executor in fitting)
        return total, total - sum(executor.used for executor in fitting)

    @property
    def is_wanted(self) -> bool:
        """Whether any job needs or has slots."""
        return bool(self._required) or any(executor.used for executor in self._executors.values())

    def overview(self) -> ResourceOverview:
        return ResourceOverview(
            task_executors=len(self._executors),
            slots_total=sum(len(executor.slots) for executor in self._executors.values()),
            slots_free=sum(
                len(executor.slots) - executor.used
                for executor in self._executors.values()
                if not executor.draining
            ),
        )
