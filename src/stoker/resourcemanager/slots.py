"""The slot manager: which slot goes to which job. Events in, slot requests out; no I/O, no clock.

A slot is FREE, PENDING (asked of its task executor, not yet answered) or ALLOCATED. Task executors
are the truth about allocated slots: their reports win over what is believed here, except for
slots that are still pending (SM-07).
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from enum import Enum

from stoker.core.ids import AllocationId, Ids, InstanceId, JobId
from stoker.gateways.resourcemanager import ResourceOverview, SlotReport


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
    """The number of the declaration for which it was given."""

    def free(self) -> None:
        self.state, self.job_id, self.allocation = SlotState.FREE, None, None
        self.declaration = 0

    def assign(self, state: SlotState, job_id: JobId, allocation: AllocationId) -> None:
        self.state, self.job_id, self.allocation = state, job_id, allocation


@dataclass(frozen=True, kw_only=True)
class SlotAssignment:
    """Ask this task executor to give this slot to that job."""

    instance: InstanceId
    slot: int
    job_id: JobId
    allocation: AllocationId


@dataclass
class Requirement:
    """What a job declared last. Each declaration is good for as many slots as it lacked then.

    A job may decline what it is given, when this declaration is older than what its master has
    meanwhile: a slot that comes back is not given again before the next declaration, or the two
    would play ball with it.
    """

    slots: int
    held: int
    """As its master says; some may be on executors that are lost here and not there."""
    number: int
    credit: int = 0


@dataclass
class SlotManager:
    ids: Ids
    _executors: dict[InstanceId, list[Slot]] = field(default_factory=dict)
    _required: dict[JobId, Requirement] = field(default_factory=dict)
    _declarations: int = 0

    def register(self, instance: InstanceId, report: SlotReport) -> None:
        """A new task executor, or the same one again; its report is used in either case."""
        self._executors.setdefault(instance, [Slot(status.index) for status in report.slots])
        self.report(instance, report)

    def unregister(self, instance: InstanceId) -> frozenset[JobId]:
        """Its slots are gone. Answers the jobs that had some there."""
        slots = self._executors.pop(instance, [])
        for slot in slots:
            self._give_credit_back(slot.job_id)
        return frozenset(slot.job_id for slot in slots if slot.job_id is not None)

    def report(self, instance: InstanceId, report: SlotReport) -> None:
        slots = {slot.index: slot for slot in self._executors.get(instance, [])}
        for status in report.slots:
            slot = slots.get(status.index)
            if slot is None:
                continue
            if status.job_id is not None and status.allocation is not None:
                slot.assign(SlotState.ALLOCATED, status.job_id, status.allocation)
            elif slot.state is SlotState.ALLOCATED:
                self._came_back(slot)

    def _came_back(self, slot: Slot) -> None:
        required = self._required.get(slot.job_id) if slot.job_id else None
        if required is not None and slot.declaration != required.number:
            required.credit += 1
        slot.free()

    def _give_credit_back(self, job_id: JobId | None) -> None:
        required = self._required.get(job_id) if job_id else None
        if required is not None:
            required.credit += 1

    def declare(self, job_id: JobId, slots: int, *, held: int = 0) -> None:
        """What the job needs in all, and how much of it its master has, wherever that is."""
        if slots > 0:
            self._declarations += 1
            required = Requirement(slots, held, self._declarations)
            self._required[job_id] = required
            required.credit = self.missing(job_id)
        else:
            self._required.pop(job_id, None)

    def acknowledged(self, assignment: SlotAssignment) -> None:
        """The task executor took the request; ignored when the slot has moved on meanwhile."""
        slot = self._find(assignment)
        if slot is not None and slot.state is SlotState.PENDING:
            slot.state = SlotState.ALLOCATED

    def refused(self, assignment: SlotAssignment) -> None:
        slot = self._find(assignment)
        if slot is not None and slot.state is SlotState.PENDING:
            self._give_credit_back(slot.job_id)
            slot.free()

    def _find(self, assignment: SlotAssignment) -> Slot | None:
        for slot in self._executors.get(assignment.instance, []):
            if slot.index == assignment.slot and slot.allocation == assignment.allocation:
                return slot
        return None

    def assign(self, ready: Container[JobId]) -> list[SlotAssignment]:
        """Hand free slots to ready jobs that miss some: one each in turn, emptiest executor first.

        A job is ready when its master is there to take what it is given.
        """
        assignments: list[SlotAssignment] = []
        while True:
            job_id = self._neediest(ready)
            free = self._emptiest()
            if job_id is None or free is None:
                return assignments
            instance, slot = free
            allocation = self.ids.allocation()
            slot.assign(SlotState.PENDING, job_id, allocation)
            required = self._required[job_id]
            required.credit -= 1
            slot.declaration = required.number
            assignments.append(
                SlotAssignment(
                    instance=instance, slot=slot.index, job_id=job_id, allocation=allocation
                )
            )

    def _neediest(self, ready: Container[JobId]) -> JobId | None:
        """Of the jobs that miss slots, the one that holds fewest; the oldest among equals."""
        lacking = [
            job_id
            for job_id in self.jobs_waiting()
            if job_id in ready and self._required[job_id].credit > 0
        ]
        return min(lacking, key=self.held, default=None)

    def _emptiest(self) -> tuple[InstanceId, Slot] | None:
        candidates = [
            (sum(slot.state is not SlotState.FREE for slot in slots), instance, slots)
            for instance, slots in self._executors.items()
            if any(slot.state is SlotState.FREE for slot in slots)
        ]
        if not candidates:
            return None
        _, instance, slots = min(candidates, key=lambda candidate: candidate[0])
        return instance, next(slot for slot in slots if slot.state is SlotState.FREE)

    def _slots(self) -> Iterable[Slot]:
        return (slot for slots in self._executors.values() for slot in slots)

    def held(self, job_id: JobId) -> int:
        """What its master says, or what is seen here: whichever is more."""
        seen = sum(slot.job_id == job_id for slot in self._slots())
        required = self._required.get(job_id)
        return max(seen, required.held) if required else seen

    def missing(self, job_id: JobId) -> int:
        required = self._required.get(job_id)
        return max(0, required.slots - self.held(job_id)) if required else 0

    def jobs_waiting(self) -> list[JobId]:
        return [job_id for job_id in self._required if self.missing(job_id) > 0]

    def jobs_on(self, instance: InstanceId) -> tuple[JobId, ...]:
        jobs = {slot.job_id for slot in self._executors.get(instance, []) if slot.job_id}
        return tuple(sorted(jobs))

    def slots_of(self, instance: InstanceId) -> tuple[int, int]:
        """Total and free."""
        slots = self._executors.get(instance, [])
        return len(slots), sum(slot.state is SlotState.FREE for slot in slots)

    def overview(self) -> ResourceOverview:
        slots = list(self._slots())
        return ResourceOverview(
            task_executors=len(self._executors),
            slots_total=len(slots),
            slots_free=sum(slot.state is SlotState.FREE for slot in slots),
        )

    def why_waiting(self, job_id: JobId) -> str | None:
        missing = self.missing(job_id)
        if missing == 0:
            return None
        needs = f"needs {missing} more slot{'s' if missing != 1 else ''}"
        if not self._executors:
            return f"{needs}; no task executor is registered"
        view = self.overview()
        ahead = [other for other in self.jobs_waiting() if other != job_id]
        others = f"; {len(ahead)} other jobs wait as well" if ahead else ""
        return f"{needs}; {view.slots_free} of {view.slots_total} are free{others}"
