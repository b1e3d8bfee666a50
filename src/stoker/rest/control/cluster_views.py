"""Turn what the master knows about the cluster into the answers of Flink's API."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from stoker.api.cluster import (
    AllocatedSlot,
    ClusterOverviewAnswer,
    DashboardConfig,
    DashboardFeatures,
    TaskManager,
    TaskManagerAnswer,
    TaskManagerHardware,
    TaskManagerMemory,
    TaskManagerResource,
    TaskManagers,
)
from stoker.core.errors import NotFound
from stoker.gateways.dispatcher import ClusterOverview
from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.rest.control.process_views import task_manager_metrics
from stoker.rest.options import RestOptions

_MIB = 1024 * 1024


def overview(cluster: ClusterOverview, version: str) -> ClusterOverviewAnswer:
    return ClusterOverviewAnswer(
        taskmanagers=cluster.resources.task_executors,
        slots_total=cluster.resources.slots_total,
        slots_available=cluster.resources.slots_free,
        jobs_running=cluster.jobs_running,
        jobs_finished=cluster.jobs_finished,
        jobs_cancelled=cluster.jobs_cancelled,
        jobs_failed=cluster.jobs_failed,
        flink_commit=f"stoker-{version}",
    )


def dashboard_config(options: RestOptions, local_time: datetime, version: str) -> DashboardConfig:
    """Settings for a web page. `local_time` must have a time zone."""
    offset = local_time.utcoffset()
    assert offset is not None
    return DashboardConfig(
        refresh_interval=round(options.refresh_interval.total_seconds() * 1000),
        timezone_name=local_time.tzname() or "UTC",
        timezone_offset=round(offset.total_seconds() * 1000),
        flink_revision=f"stoker-{version}",
        features=DashboardFeatures(
            web_submit=options.submit_enabled, web_cancel=options.cancel_enabled
        ),
    )


def task_managers(executors: Iterable[TaskExecutorDetails]) -> TaskManagers:
    return TaskManagers(taskmanagers=[TaskManager(**_facts(each)) for each in executors])


def task_manager(executors: Iterable[TaskExecutorDetails], wanted: str) -> TaskManagerAnswer:
    for executor in executors:
        if executor.resource_id == wanted:
            slot = _share(executor, 1)
            slots = [AllocatedSlot(job_id=job, resource=slot) for job in executor.jobs]
            return TaskManagerAnswer(**_facts(executor), allocated_slots=slots)
    raise NotFound(f"no task executor with id {wanted}; GET /taskmanagers lists the ids")


def with_measurements(answer: TaskManagerAnswer, figures: Mapping[str, float]) -> TaskManagerAnswer:
    """Add what the process has measured about itself."""
    hardware = msgspec.structs.replace(
        answer.hardware, free_memory=int(figures.get("Status.Machine.Memory.Free", 0))
    )
    return msgspec.structs.replace(answer, hardware=hardware, metrics=task_manager_metrics(figures))


def _facts(executor: TaskExecutorDetails) -> dict[str, Any]:
    return {
        "id": executor.resource_id,
        "path": executor.address,
        "time_since_last_heartbeat": executor.last_heartbeat,
        "slots_number": executor.slots_total,
        "free_slots": executor.slots_free,
        "assigned_tasks": executor.slots_total - executor.slots_free,
        "total_resource": _share(executor, executor.slots_total),
        "free_resource": _share(executor, executor.slots_free),
        "hardware": TaskManagerHardware(
            cpu_cores=executor.cores, physical_memory=executor.memory_bytes
        ),
        "memory_configuration": TaskManagerMemory(total_process_memory=executor.memory_bytes),
    }


def _share(executor: TaskExecutorDetails, slots: int) -> TaskManagerResource:
    """Resources of this many slots; all slots have an equal share of the task executor."""
    part = slots / executor.slots_total if executor.slots_total else 0.0
    return TaskManagerResource(
        cpu_cores=executor.cores * part,
        task_heap_memory=int(executor.memory_bytes * part) // _MIB,
    )
