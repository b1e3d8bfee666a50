"""What a job asks of the cluster: queue, priority, slots, resources, and restarts after failures.

Values come as users write them, in Python, in YAML or beside the job, and are checked here. A value
that is given beside the job, as an option of a command or an argument of `submit`, overrides the
job's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import msgspec

from stoker.core.checks.validation import validate
from stoker.core.errors import InvalidJobGraph
from stoker.core.faults import Fault, did_you_mean
from stoker.core.graph import DEFAULT_QUEUE, JobGraph, ResourceProfile, RestartPolicy
from stoker.core.options import read_size
from stoker.pipeline.texts import as_text, refuse

RESOURCES = ("cores", "memory")


@dataclass(frozen=True, kw_only=True)
class Demands:
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    slots: int | None = None
    profile: ResourceProfile = ResourceProfile()


class DemandOverrides(TypedDict, total=False):
    """Demands given beside the job. A key that is absent or None leaves the job's own value."""

    queue: str | None
    priority: int | None
    slots: int | None
    resources: Mapping[str, Any] | None


def with_demands(graph: JobGraph, **given: Unpack[DemandOverrides]) -> JobGraph:
    """The graph with its demands overridden. Raises InvalidJobGraph if the two do not agree."""
    overrides: DemandOverrides = {k: v for k, v in given.items() if v is not None}  # type: ignore[assignment]
    if not overrides:
        return graph
    demands = demands_of(**overrides)
    before = graph.profile
    resources = overrides.get("resources") or {}
    changed = msgspec.structs.replace(
        graph,
        queue=demands.queue if "queue" in overrides else graph.queue,
        priority=demands.priority if "priority" in overrides else graph.priority,
        slots=demands.slots if "slots" in overrides else graph.slots,
        profile=ResourceProfile(
            cores=demands.profile.cores if "cores" in resources else before.cores,
            memory_bytes=(
                demands.profile.memory_bytes if "memory" in resources else before.memory_bytes
            ),
        ),
    )
    validate(changed)
    return changed


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
    if given is None:
        return ResourceProfile()
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


def restart_policy(given: RestartPolicy | Mapping[str, Any] | str | None) -> RestartPolicy | None:
    if given is None or isinstance(given, RestartPolicy):
        return given
    if isinstance(given, str):
        return RestartPolicy(strategy=given)
    if not isinstance(given, Mapping):
        raise refuse("restart", f"it is a {type(given).__name__}", "give a mapping")
    known = RestartPolicy.__struct_fields__
    faults = [
        str(Fault("restart", f"unknown key '{key}'", did_you_mean(str(key), known)))
        for key in given
        if key not in known
    ]
    if faults:
        raise InvalidJobGraph(faults)
    try:
        return msgspec.convert(dict(given), RestartPolicy)
    except msgspec.ValidationError as error:
        raise refuse("restart", str(error), "correct the value") from error
