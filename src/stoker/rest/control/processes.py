"""Requests about processes: the logs, threads, metrics and environment of each.

The leading master answers. It inspects itself directly, and a task executor by RPC.
"""

import platform
import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Annotated

from stoker.api.cluster import (
    ConfigurationEntry,
    LogFileAnswer,
    LogList,
    PythonEnvironment,
    PythonRuntime,
    ThreadDump,
    ThreadInfo,
)
from stoker.api.metrics import AggregatedMetric, GarbageCollector, Metric, TaskManagerMetrics
from stoker.api.shape import Nothing
from stoker.core.errors import NotFound, Unavailable
from stoker.core.ids import ResourceId
from stoker.core.states import ApplicationStatus
from stoker.gateways.inspection import InspectionGateway, LogListing
from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.rest.flink.metric_names import Figures, process_figures
from stoker.rest.http.asgi import Stream
from stoker.rest.http.routing import QueryParameter, delete, get
from stoker.rest.jobs.aggregation import aggregate_metrics, parse_modes, parse_names, select_metrics
from stoker.rest.requests.parameters import TaskManagerIdText
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission


def configuration_entries(configuration: Mapping[str, str]) -> list[ConfigurationEntry]:
    return [ConfigurationEntry(key=key, value=value) for key, value in configuration.items()]


def python_environment() -> PythonEnvironment:
    """Environment of this process. Program arguments are left out: they may be secret."""
    version = f"Python {platform.python_version()} ({platform.python_implementation()})"
    flags = [f"-X {name}" for name in sys._xoptions]
    return PythonEnvironment(
        jvm=PythonRuntime(version=version, arch=platform.machine(), options=flags),
        classpath=[path for path in sys.path if path],
    )


def log_list(listing: LogListing) -> LogList:
    return LogList(
        logs=[
            LogFileAnswer(name=file.name, size=file.size, mtime=file.modified)
            for file in listing.files
        ]
    )


def thread_dump(threads: Mapping[str, str]) -> ThreadDump:
    return ThreadDump(
        thread_infos=[
            ThreadInfo(thread_name=name, stringified_thread_info=stack)
            for name, stack in threads.items()
        ]
    )


def metrics_as_text(figures: Mapping[str, float]) -> dict[str, str]:
    return {
        name: str(int(value)) if float(value).is_integer() else str(value)
        for name, value in figures.items()
    }


def task_manager_metrics(figures: Mapping[str, float]) -> TaskManagerMetrics:
    """Metrics of a task executor; its memory includes that of its Spark server and runners."""
    own = int(figures.get("Status.JVM.Memory.Heap.Used", 0))
    children = int(figures.get("Status.Process.Children.Memory.Used", 0))
    collections = int(figures.get("Status.JVM.GarbageCollector.All.Count", 0))
    return TaskManagerMetrics(
        heap_used=own + children,
        heap_committed=own + children,
        heap_max=int(figures.get("Status.JVM.Memory.Heap.Max", 0)),
        garbage_collectors=[GarbageCollector(name="Python", count=collections, time=0)],
    )


_PIECE_BYTES = 256 * 1024
Names = Annotated[str | None, QueryParameter(name="get", description="names of metrics")]


def master_inspection(services: RestServices) -> InspectionGateway:
    if services.inspection is None:
        raise Unavailable("this master cannot be inspected at the moment; try again")
    return services.inspection


async def _find_inspection(services: RestServices, wanted: str) -> InspectionGateway:
    return await inspection_of(services, await find_executor(services, wanted))


async def find_executor(services: RestServices, wanted: str) -> TaskExecutorDetails:
    dispatcher = await services.dispatcher()
    for executor in await dispatcher.task_executors():
        if executor.resource_id == wanted:
            return executor
    raise NotFound(f"no task executor with id {wanted}; GET /taskmanagers lists the ids")


async def inspection_of(services: RestServices, executor: TaskExecutorDetails) -> InspectionGateway:
    if services.process_at is None:
        raise Unavailable("this master cannot inspect task executors")
    return await services.process_at(executor.address)


async def executor_figures(services: RestServices) -> dict[ResourceId, Figures]:
    """Figures of every task executor whose metrics could be fetched, by Flink's names."""
    dispatcher = await services.dispatcher()
    dumps = await services.fetcher.fetch(await dispatcher.task_executors(), services.process_at)
    now = services.clock() / 1000
    return {resource_id: process_figures(dump, now) for resource_id, dump in dumps.items()}


# The master


@get(
    "/jobmanager/config",
    needs=Permission.READ,
    summary="Configuration of the master, without secrets",
)
async def master_config(services: RestServices) -> list[ConfigurationEntry]:
    return configuration_entries(services.configuration)


@get("/jobmanager/environment", needs=Permission.READ, summary="Python environment of the master")
async def master_environment(services: RestServices) -> PythonEnvironment:
    return python_environment()


@get("/jobmanager/logs", needs=Permission.READ, summary="Log files of the master")
async def master_logs(services: RestServices) -> LogList:
    return log_list(await master_inspection(services).logs())


@get("/jobmanager/log", needs=Permission.READ, summary="Log of the master")
async def master_log(services: RestServices) -> Stream:
    inspection = master_inspection(services)
    return await _log(inspection, (await inspection.logs()).main_log)


@get("/jobmanager/stdout", needs=Permission.READ, summary="Output of the master")
async def master_stdout(services: RestServices) -> Stream:
    inspection = master_inspection(services)
    return await _log(inspection, (await inspection.logs()).main_output)


@get("/jobmanager/logs/{file}", needs=Permission.READ, summary="A log file of the master")
async def master_log_file(file: str, services: RestServices) -> Stream:
    return await _log(master_inspection(services), file)


@get(
    "/jobmanager/metrics", needs=Permission.READ, summary="Metrics of the master and of the cluster"
)
async def master_metrics(services: RestServices, names: Names = None) -> list[Metric]:
    figures = process_figures(services.metrics.collect(), services.clock() / 1000)
    return select_metrics(metrics_as_text(figures), parse_names(names))


@get(
    "/jobmanager/thread-dump",
    needs=Permission.READ,
    summary="Stack traces of the threads of the master",
)
async def master_threads(services: RestServices) -> ThreadDump:
    return thread_dump(await master_inspection(services).threads())


@delete("/cluster", needs=Permission.OPERATE, status=200, summary="Shut down the whole cluster")
async def shut_down(services: RestServices) -> Nothing:
    dispatcher = await services.dispatcher()
    await dispatcher.shut_down_cluster(ApplicationStatus.SUCCEEDED)
    return Nothing()


# Task executors


@get(
    "/taskmanagers/{taskmanagerid}/logs",
    needs=Permission.READ,
    summary="Log files of a task executor",
)
async def executor_logs(taskmanagerid: TaskManagerIdText, services: RestServices) -> LogList:
    return log_list(await (await _find_inspection(services, taskmanagerid)).logs())


@get("/taskmanagers/{taskmanagerid}/log", needs=Permission.READ, summary="Log of a task executor")
async def executor_log(taskmanagerid: TaskManagerIdText, services: RestServices) -> Stream:
    inspection = await _find_inspection(services, taskmanagerid)
    return await _log(inspection, (await inspection.logs()).main_log)


@get(
    "/taskmanagers/{taskmanagerid}/stdout",
    needs=Permission.READ,
    summary="Output of a task executor",
)
async def executor_stdout(taskmanagerid: TaskManagerIdText, services: RestServices) -> Stream:
    inspection = await _find_inspection(services, taskmanagerid)
    return await _log(inspection, (await inspection.logs()).main_output)


@get(
    "/taskmanagers/{taskmanagerid}/logs/{file}",
    needs=Permission.READ,
    summary="A log file of a task executor",
)
async def executor_log_file(
    taskmanagerid: TaskManagerIdText, file: str, services: RestServices
) -> Stream:
    return await _log(await _find_inspection(services, taskmanagerid), file)


@get(
    "/taskmanagers/{taskmanagerid}/metrics",
    needs=Permission.READ,
    summary="Metrics of a task executor",
)
async def executor_metrics(
    taskmanagerid: TaskManagerIdText, services: RestServices, names: Names = None
) -> list[Metric]:
    await find_executor(services, taskmanagerid)
    figures = (await executor_figures(services)).get(ResourceId(taskmanagerid), {})
    return select_metrics(metrics_as_text(figures), parse_names(names))


@get(
    "/taskmanagers/{taskmanagerid}/thread-dump",
    needs=Permission.READ,
    summary="Stack traces of the threads of a task executor",
)
async def executor_threads(taskmanagerid: TaskManagerIdText, services: RestServices) -> ThreadDump:
    return thread_dump(await (await _find_inspection(services, taskmanagerid)).threads())


@get(
    "/taskmanagers/metrics",
    needs=Permission.READ,
    summary="Metrics of several task executors, aggregated; by default of all",
)
async def executors_metrics(
    services: RestServices,
    names: Names = None,
    agg: str | None = None,
    taskmanagers: str | None = None,
) -> list[AggregatedMetric]:
    modes, wanted = parse_modes(agg), parse_names(taskmanagers)
    fetched = await executor_figures(services)
    figures = [
        metrics_as_text(each)
        for resource_id, each in fetched.items()
        if wanted is None or resource_id in wanted
    ]
    return aggregate_metrics(figures, parse_names(names), modes)


async def _log(inspection: InspectionGateway, name: str | None) -> Stream:
    """The first piece is read before the answer begins, so that a missing file is a 404."""
    if name is None:
        raise NotFound("this process does not write its output to a file")
    first = await inspection.read_log(name, 0, _PIECE_BYTES)

    async def pieces() -> AsyncGenerator[bytes, None]:
        piece, offset = first, 0
        while piece:
            yield piece
            offset += len(piece)
            piece = await inspection.read_log(name, offset, _PIECE_BYTES)

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
