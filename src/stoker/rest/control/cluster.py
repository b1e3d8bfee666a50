"""Requests about the cluster and its task executors, answered in the form of Flink's API."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

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
from stoker.core.errors import InvalidInput
from stoker.gateways.dispatcher import ClusterOverview
from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.rest.control.processes import (
    executor_figures,
    find_executor,
    task_manager_metrics,
)
from stoker.rest.http.routing import QueryParameter, get
from stoker.rest.options import RestOptions
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

_MIB = 1024 * 1024
Shown = Annotated[
    str | None, QueryParameter(description="leader: show the leading master and its epoch")
]
"""Without it, the answer has the fields of Flink's and no others."""


def overview_answer(
    cluster: ClusterOverview, version: str, leader: str | None, epoch: int | None = None
) -> ClusterOverviewAnswer:
    return ClusterOverviewAnswer(
        taskmanagers=cluster.resources.task_executors,
        slots_total=cluster.resources.slots_total,
        slots_available=cluster.resources.slots_free,
        jobs_running=cluster.jobs_running,
        jobs_finished=cluster.jobs_finished,
        jobs_cancelled=cluster.jobs_cancelled,
        jobs_failed=cluster.jobs_failed,
        flink_commit=f"stoker-{version}",
        leader=leader or msgspec.UNSET,
        leader_epoch=msgspec.UNSET if leader is None or epoch is None else epoch,
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


def task_managers_answer(executors: Iterable[TaskExecutorDetails]) -> TaskManagers:
    return TaskManagers(taskmanagers=[TaskManager(**_facts(each)) for each in executors])


def task_manager_answer(executor: TaskExecutorDetails) -> TaskManagerAnswer:
    slot = _share(executor, 1)
    slots = [AllocatedSlot(job_id=job, resource=slot) for job in executor.jobs]
    return TaskManagerAnswer(**_facts(executor), allocated_slots=slots)


def with_measurements(answer: TaskManagerAnswer, figures: Mapping[str, float]) -> TaskManagerAnswer:
    """Add the figures that the process has measured about itself."""
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


@get("/overview", needs=Permission.QUERY, summary="Number of task executors, slots and jobs")
async def overview(services: RestServices, show: Shown = None) -> ClusterOverviewAnswer:
    if show not in (None, "leader"):
        raise InvalidInput(f"show must be leader, found {show!r}")
    dispatcher = await services.dispatcher()
    known = await dispatcher.cluster_overview()
    leader = None if show is None else services.leader_url()
    return overview_answer(known, services.version, leader, services.epoch())


@get("/config", needs=Permission.QUERY, summary="Settings of the cluster for a web page")
async def config(services: RestServices) -> DashboardConfig:
    now = datetime.fromtimestamp(services.clock() / 1000, UTC).astimezone()
    return dashboard_config(services.options, now, services.version)


@get("/taskmanagers", needs=Permission.READ, summary="All task executors")
async def task_managers(services: RestServices) -> TaskManagers:
    dispatcher = await services.dispatcher()
    return task_managers_answer(await dispatcher.task_executors())


@get("/taskmanagers/{taskmanagerid}", needs=Permission.READ, summary="One task executor")
async def task_manager(taskmanagerid: str, services: RestServices) -> TaskManagerAnswer:
    executor = await find_executor(services, taskmanagerid)
    answer = task_manager_answer(executor)
    figures = (await executor_figures(services)).get(executor.resource_id)
    # Without them, the facts that the master knows still hold.
    return answer if figures is None else with_measurements(answer, figures)


CLUSTER_HANDLERS = (overview, config, task_managers, task_manager)
