"""Shapes of the answers of Flink's REST API 2.3: their fields and types.

Types: a Python type; a list with one shape for its items; a dict for an object with exactly these
fields; `Each(shape)` for an object with any keys; `Maybe(shape)` for a field that may be absent.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Each:
    shape: Any


@dataclass(frozen=True)
class Maybe:
    shape: Any


number = (int, float)

JOB_STATES = [
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
]
TASK_STATES = [
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "INITIALIZING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
]

COUNT_OF_EACH_STATE = dict.fromkeys(TASK_STATES, int)

JOBS = {"jobs": [{"id": str, "status": str}]}

JOBS_OVERVIEW = {
    "jobs": [
        {
            "jid": str,
            "name": str,
            "jobType": str,
            "schedulerType": str,
            "start-time": int,
            "end-time": int,
            "duration": int,
            "state": str,
            "last-modification": int,
            "tasks": {"total": int} | {state.lower(): int for state in TASK_STATES},
            "pending-operators": int,
            "waits-for": Maybe(str),
        }
    ]
}

PLAN = {
    "jid": str,
    "name": str,
    "type": str,
    "nodes": [
        {
            "id": str,
            "operator": str,
            "parallelism": int,
            "operator_strategy": str,
            "description": str,
            "optimizer_properties": Each(str),
            "inputs": Maybe([{"id": str, "num": int, "exchange": str, "ship_strategy": str}]),
        }
    ],
}

_FLOWS = ("read-bytes", "write-bytes", "read-records", "write-records")

JOB = {
    "jid": str,
    "application-id": str,
    "name": str,
    "isStoppable": bool,
    "state": str,
    "job-type": str,
    "schedulerType": str,
    "start-time": int,
    "end-time": int,
    "duration": int,
    "maxParallelism": int,
    "now": int,
    "timestamps": dict.fromkeys(JOB_STATES, int),
    "vertices": [
        {
            "id": str,
            "slotSharingGroupId": str,
            "name": str,
            "maxParallelism": int,
            "parallelism": int,
            "status": str,
            "start-time": int,
            "end-time": int,
            "duration": int,
            "tasks": COUNT_OF_EACH_STATE,
            "metrics": dict.fromkeys(_FLOWS, int)
            | {f"{flow}-complete": bool for flow in _FLOWS}
            | {
                "accumulated-backpressured-time": int,
                "accumulated-idle-time": int,
                "accumulated-busy-time": number,
            },
        }
    ],
    "status-counts": COUNT_OF_EACH_STATE,
    "plan": PLAN,
    "stream-graph": Maybe(dict),
    "pending-operators": int,
}

STATUS = {"status": str}

EXECUTION_RESULT = {
    "status": {"id": str},
    "job-execution-result": Maybe(
        {
            "id": str,
            "name": str,
            "application-status": str,
            "accumulator-results": Each(str),
            "net-runtime": int,
            "failure-cause": Maybe(
                {"class": str, "stack-trace": str, "serialized-throwable": Maybe(str)}
            ),
            "application-id": str,
            "start-time": int,
            "end-time": int,
        }
    ),
}

EXCEPTIONS = {
    "exceptionHistory": {
        "entries": [
            {
                "exceptionName": str,
                "stacktrace": str,
                "timestamp": int,
                "failureLabels": Each(str),
                "concurrentExceptions": list,
                "taskName": Maybe(str),
                "endpoint": Maybe(str),
                "taskManagerId": Maybe(str),
            }
        ],
        "truncated": bool,
    }
}

JOB_CONFIG = {
    "jid": str,
    "name": str,
    "execution-config": {
        "restart-strategy": str,
        "job-parallelism": int,
        "object-reuse-mode": bool,
        "user-config": Each(str),
    },
}

OVERVIEW = {
    "taskmanagers": int,
    "slots-total": int,
    "slots-available": int,
    "jobs-running": int,
    "jobs-finished": int,
    "jobs-cancelled": int,
    "jobs-failed": int,
    "flink-version": str,
    "flink-commit": str,
    "leader": Maybe(str),
    "leader-epoch": Maybe(int),
}

CONFIG = {
    "refresh-interval": int,
    "timezone-name": str,
    "timezone-offset": int,
    "flink-version": str,
    "flink-revision": str,
    "features": dict.fromkeys(("web-submit", "web-cancel", "web-rescale", "web-history"), bool),
}

_RESOURCE = {
    "cpuCores": number,
    "taskHeapMemory": int,
    "taskOffHeapMemory": int,
    "managedMemory": int,
    "networkMemory": int,
    "extendedResources": Each(number),
}

TASK_MANAGER = {
    "id": str,
    "path": str,
    "dataPort": int,
    "jmxPort": int,
    "timeSinceLastHeartbeat": int,
    "slotsNumber": int,
    "freeSlots": int,
    "assignedTasks": int,
    "totalResource": _RESOURCE,
    "freeResource": _RESOURCE,
    "hardware": dict.fromkeys(("cpuCores", "physicalMemory", "freeMemory", "managedMemory"), int),
    "memoryConfiguration": dict.fromkeys(
        [
            "frameworkHeap",
            "taskHeap",
            "frameworkOffHeap",
            "taskOffHeap",
            "networkMemory",
            "managedMemory",
            "jvmMetaspace",
            "jvmOverhead",
            "totalFlinkMemory",
            "totalProcessMemory",
        ],
        int,
    ),
}

TASK_MANAGERS = {"taskmanagers": [TASK_MANAGER]}

TASK_MANAGER_DETAILS = TASK_MANAGER | {
    "allocatedSlots": [{"jobId": str, "resource": _RESOURCE, "assignedTasks": int}],
    "metrics": dict.fromkeys(
        [
            "heapUsed",
            "heapCommitted",
            "heapMax",
            "nonHeapUsed",
            "nonHeapCommitted",
            "nonHeapMax",
            "directCount",
            "directUsed",
            "directMax",
            "mappedCount",
            "mappedUsed",
            "mappedMax",
            "nettyShuffleMemorySegmentsAvailable",
            "nettyShuffleMemorySegmentsUsed",
            "nettyShuffleMemorySegmentsTotal",
            "nettyShuffleMemoryAvailable",
            "nettyShuffleMemoryUsed",
            "nettyShuffleMemoryTotal",
        ],
        int,
    )
    | {"garbageCollectors": [{"name": str, "count": int, "time": int}]},
}

ERRORS = {"errors": [str]}


def differences(value: Any, shape: Any, place: str = "") -> list[str]:
    """The places where `value` does not have the shape; empty if it has the shape."""
    match shape:
        case Each(each):
            return _differences_in_items(
                value, dict, [(key, value[key], each) for key in value], place
            )
        case dict():
            return _differences_in_object(value, shape, place)
        case [each]:
            items = [(str(number), item, each) for number, item in enumerate(value)]
            return _differences_in_items(value, list, items, place)
    if isinstance(value, bool) and shape is not bool:
        return [f"{place}: a boolean instead of {shape}"]
    return [] if isinstance(value, shape) else [f"{place}: {value!r} is not a {shape}"]


def _differences_in_items(
    value: Any, kind: type, items: list[tuple[str, Any, Any]], place: str
) -> list[str]:
    if not isinstance(value, kind):
        return [f"{place}: {value!r} is not a {kind}"]
    return [
        fault for key, item, each in items for fault in differences(item, each, f"{place}/{key}")
    ]


def _differences_in_object(value: Any, shape: dict[str, Any], place: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{place}: {value!r} is not an object"]
    faults = [f"{place}/{key}: not in Flink's answer" for key in value.keys() - shape.keys()]
    for key, each in shape.items():
        inner = each.shape if isinstance(each, Maybe) else each
        if key in value:
            faults += differences(value[key], inner, f"{place}/{key}")
        elif not isinstance(each, Maybe):
            faults.append(f"{place}/{key}: missing")
    return faults
