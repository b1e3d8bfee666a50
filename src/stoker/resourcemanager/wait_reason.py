"""Why a job waits for slots, as text, and whether it can obtain them. Pure."""

from collections.abc import Sequence

from stoker.core.graph import ResourceProfile
from stoker.core.ids import JobId
from stoker.gateways.resourcemanager import WaitReason
from stoker.resourcemanager.slots import SlotManager

_MIB = 2**20


def wait_reason_of(
    slots: SlotManager,
    job_id: JobId,
    *,
    startable: int = 0,
    starting: int = 0,
    draining: Sequence[str] = (),
) -> WaitReason | None:
    """Why the job waits; None for a job that has all slots.

    `startable` is the number of fitting slots that a provider could still start, including those
    of the task executors that are `starting`. `draining` names those that take no new tasks.
    """
    required = slots.requirement(job_id)
    missing = slots.missing(job_id)
    if required is None or missing == 0:
        return None
    total, free = slots.slots_fitting(required.profile)
    parts = [f"needs {missing} more {_slots(missing)}{_each(required.profile)}"]
    if slots.overview().task_executors == 0:
        parts.append("no task executor is registered")
    elif total == 0 and not draining:
        parts.append("no registered slot that accepts tasks is large enough")
    elif total:
        parts.append(f"{free} of {total} {'are' if total != 1 else 'is'} free")
    if draining:
        drains = "drains and takes" if len(draining) == 1 else "drain and take"
        parts.append(f"{', '.join(draining)} {drains} no new tasks")
    if starting:
        parts.append(f"{starting} task executor{'s' if starting != 1 else ''} being started")
    if total + startable < required.least:
        parts.append(_unobtainable(required.least, total + startable))
    others = slots.others_waiting(job_id)
    if others:
        parts.append("1 other job waits as well" if others == 1 else f"{others} other jobs wait")
    return WaitReason(text="; ".join(parts), slots_obtainable=total + startable >= required.least)


def _unobtainable(least: int, most: int) -> str:
    return (
        f"the cluster can offer {most} and the job cannot begin with fewer than {least}: start "
        "task executors that have them, or ask for less"
    )


def _slots(count: int) -> str:
    return "slot" if count == 1 else "slots"


def _each(profile: ResourceProfile) -> str:
    asked = []
    if profile.cores:
        asked.append(f"{profile.cores:g} core{'s' if profile.cores != 1 else ''}")
    if profile.memory_bytes:
        asked.append(f"{profile.memory_bytes / _MIB:.0f} MiB")
    return f" of {' and '.join(asked)}" if asked else ""
