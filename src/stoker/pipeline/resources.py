"""What a job asks of the cluster, as users write it: queue, priority, slots, what a slot offers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.core.errors import InvalidJobGraph
from stoker.core.faults import Fault, did_you_mean
from stoker.core.graph import DEFAULT_QUEUE, ResourceProfile
from stoker.core.options import read_size
from stoker.pipeline.texts import as_text, refuse

RESOURCES = ("cores", "memory")


@dataclass(frozen=True, kw_only=True)
class Demands:
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    slots: int | None = None
    profile: ResourceProfile = ResourceProfile()


def demands_of(
    queue: Any = None, priority: Any = None, slots: Any = None, resources: Any = None
) -> Demands:
    return Demands(
        queue=DEFAULT_QUEUE if queue is None else as_text(queue, place="job", what="its queue"),
        priority=_whole(priority, "priority") or 0,
        slots=_whole(slots, "slots"),
        profile=_profile(resources),
    )


def _whole(value: Any, what: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(what, f"it is {value!r}", "give a whole number")
    return value


def _profile(given: Any) -> ResourceProfile:
    if given is None or isinstance(given, ResourceProfile):
        return given or ResourceProfile()
    if not isinstance(given, Mapping):
        raise refuse("resources", f"it is a {type(given).__name__}", "give cores and memory")
    faults = [
        str(Fault("resources", f"unknown key '{key}'", did_you_mean(str(key), RESOURCES)))
        for key in given
        if key not in RESOURCES
    ]
    if faults:
        raise InvalidJobGraph(faults)
    cores = given.get("cores", 0)
    if isinstance(cores, bool) or not isinstance(cores, int | float):
        raise refuse("resources", f"cores is {cores!r}", "give a number")
    memory = given.get("memory", 0)
    try:
        size = int(read_size(as_text(memory, place="resources", what="memory")))
    except ValueError as error:
        remedy = "give a size, such as 512 mb or 2 gb"
        raise refuse("resources", f"memory is {memory!r}", remedy) from error
    return ResourceProfile(cores=float(cores), memory_bytes=size)
