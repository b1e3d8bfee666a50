"""Requests about processes: the leading master, which answers, and any task executor.

The master reads its own logs, threads and metrics; it asks a task executor for them by RPC.
"""

from collections.abc import AsyncGenerator
from typing import Annotated

from stoker.api.cluster import (
    ConfigurationEntry,
    LogList,
    PythonEnvironment,
    ThreadDump,
)
from stoker.api.metrics import AggregatedMetric, Metric
from stoker.api.shape import Nothing
from stoker.core.errors import NotFound, StokerError, Unavailable
from stoker.core.states import ApplicationStatus
from stoker.gateways.inspection import InspectionGateway
from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.rest.control import process_views as views
from stoker.rest.http.asgi import Stream
from stoker.rest.http.routing import QueryParameter, delete, get
from stoker.rest.jobs.aggregation import (
    aggregate_metrics,
    parse_modes,
    parse_names,
    select_metrics,
)
from stoker.rest.requests.parameters import TaskManagerIdText
from stoker.rest.services import RestServices

_PIECE = 256 * 1024
Names = Annotated[str | None, QueryParameter(name="get", description="names of metrics")]


def master_inspection(services: RestServices) -> InspectionGateway:
    if services.inspection is None:
        raise Unavailable("this master cannot be inspected at the moment; try again")
    return services.inspection


async def inspection_of(services: RestServices, wanted: str) -> InspectionGateway:
    return await _inspect(services, await find_executor(services, wanted))


async def find_executor(services: RestServices, wanted: str) -> TaskExecutorDetails:
    dispatcher = await services.dispatcher()
    for executor in await dispatcher.task_executors():
        if executor.resource_id == wanted:
            return executor
    raise NotFound(f"no task executor with id {wanted}; GET /taskmanagers lists the ids")


async def _inspect(services: RestServices, executor: TaskExecutorDetails) -> InspectionGateway:
    if services.process_at is None:
        raise Unavailable("this master cannot inspect task executors")
    return await services.process_at(executor.address)


# The master


@get("/jobmanager/config", summary="Configuration of the master, without secrets")
async def master_config(services: RestServices) -> list[ConfigurationEntry]:
    return views.configuration_entries(services.configuration)


@get("/jobmanager/environment", summary="Python environment of the master")
async def master_environment(services: RestServices) -> PythonEnvironment:
    return views.environment()


@get("/jobmanager/logs", summary="Log files of the master")
async def master_logs(services: RestServices) -> LogList:
    return views.log_list(await master_inspection(services).logs())


@get("/jobmanager/log", summary="Log of the master")
async def master_log(services: RestServices) -> Stream:
    inspection = master_inspection(services)
    return await _log(inspection, (await inspection.logs()).main_log)


@get("/jobmanager/stdout", summary="Output of the master")
async def master_stdout(services: RestServices) -> Stream:
    inspection = master_inspection(services)
    return await _log(inspection, (await inspection.logs()).main_output)


@get("/jobmanager/logs/{file}", summary="A log file of the master")
async def master_log_file(file: str, services: RestServices) -> Stream:
    return await _log(master_inspection(services), file)


@get("/jobmanager/metrics", summary="Metrics of the master and of the cluster")
async def master_metrics(services: RestServices, names: Names = None) -> list[Metric]:
    dispatcher = await services.dispatcher()
    cluster = await dispatcher.cluster_overview()
    figures = views.metrics_as_text(await master_inspection(services).figures()) | {
        "numRegisteredTaskManagers": str(cluster.resources.task_executors),
        "numRunningJobs": str(cluster.jobs_running),
        "taskSlotsTotal": str(cluster.resources.slots_total),
        "taskSlotsAvailable": str(cluster.resources.slots_free),
    }
    return select_metrics(figures, parse_names(names))


@get("/jobmanager/thread-dump", summary="Stack traces of the threads of the master")
async def master_threads(services: RestServices) -> ThreadDump:
    return views.thread_dump(await master_inspection(services).threads())


@delete("/cluster", status=200, summary="Shut down the whole cluster")
async def shut_down(services: RestServices) -> Nothing:
    dispatcher = await services.dispatcher()
    await dispatcher.shut_down_cluster(ApplicationStatus.SUCCEEDED)
    return Nothing()


# Task executors


@get("/taskmanagers/{taskmanagerid}/logs", summary="Log files of a task executor")
async def executor_logs(taskmanagerid: TaskManagerIdText, services: RestServices) -> LogList:
    return views.log_list(await (await inspection_of(services, taskmanagerid)).logs())


@get("/taskmanagers/{taskmanagerid}/log", summary="Log of a task executor")
async def executor_log(taskmanagerid: TaskManagerIdText, services: RestServices) -> Stream:
    inspection = await inspection_of(services, taskmanagerid)
    return await _log(inspection, (await inspection.logs()).main_log)


@get("/taskmanagers/{taskmanagerid}/stdout", summary="Output of a task executor")
async def executor_stdout(taskmanagerid: TaskManagerIdText, services: RestServices) -> Stream:
    inspection = await inspection_of(services, taskmanagerid)
    return await _log(inspection, (await inspection.logs()).main_output)


@get("/taskmanagers/{taskmanagerid}/logs/{file}", summary="A log file of a task executor")
async def executor_log_file(
    taskmanagerid: TaskManagerIdText, file: str, services: RestServices
) -> Stream:
    return await _log(await inspection_of(services, taskmanagerid), file)


@get("/taskmanagers/{taskmanagerid}/metrics", summary="Metrics of a task executor")
async def executor_metrics(
    taskmanagerid: TaskManagerIdText, services: RestServices, names: Names = None
) -> list[Metric]:
    inspection = await inspection_of(services, taskmanagerid)
    return select_metrics(views.metrics_as_text(await inspection.figures()), parse_names(names))


@get(
    "/taskmanagers/{taskmanagerid}/thread-dump",
    summary="Stack traces of the threads of a task executor",
)
async def executor_threads(taskmanagerid: TaskManagerIdText, services: RestServices) -> ThreadDump:
    return views.thread_dump(await (await inspection_of(services, taskmanagerid)).threads())


@get(
    "/taskmanagers/metrics",
    summary="Metrics of several task executors, aggregated; by default of all",
)
async def executors_metrics(
    services: RestServices,
    names: Names = None,
    agg: str | None = None,
    taskmanagers: str | None = None,
) -> list[AggregatedMetric]:
    modes, wanted = parse_modes(agg), parse_names(taskmanagers)
    dispatcher = await services.dispatcher()
    figures = []
    for executor in await dispatcher.task_executors():
        if wanted is None or executor.resource_id in wanted:
            try:
                found = await (await _inspect(services, executor)).figures()
            except StokerError:
                # A task executor that has just ended must not hide the others.
                continue
            figures.append(views.metrics_as_text(found))
    return aggregate_metrics(figures, parse_names(names), modes)


async def _log(inspection: InspectionGateway, name: str | None) -> Stream:
    """The first piece is read before the answer begins, so that a missing file is a 404."""
    if name is None:
        raise NotFound("this process does not write its output to a file")
    first = await inspection.read_log(name, 0, _PIECE)

    async def pieces() -> AsyncGenerator[bytes, None]:
        piece, offset = first, 0
        while piece:
            yield piece
            offset += len(piece)
            piece = await inspection.read_log(name, offset, _PIECE)

    return Stream(pieces(), media_type="text/plain; charset=utf-8")


PROCESS_HANDLERS = (
    master_config,
    master_environment,
    master_logs,
    master_log,
    master_stdout,
    master_log_file,
    master_metrics,
    master_threads,
    shut_down,
    executor_logs,
    executor_log,
    executor_stdout,
    executor_log_file,
    executor_metrics,
    executor_threads,
    executors_metrics,
)
