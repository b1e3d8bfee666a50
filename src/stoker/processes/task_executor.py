"""The task executor process: a Spark engine, and slots to run tasks on it."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

import stoker.processes.grpc_without_forks  # noqa: F401  (before all that imports gRPC)
from stoker.aio.clock import system_wall_clock
from stoker.aio.log_context import bind_log_fields
from stoker.aio.scope import TaskScope
from stoker.blob.cache import BlobCache
from stoker.blob.options import BlobOptions
from stoker.config.configuration import Configuration
from stoker.config.processes import ProcessOptions, TaskExecutorProcessOptions
from stoker.core.errors import StartupFailed
from stoker.core.graph import EngineKind
from stoker.core.ids import Ids
from stoker.engine.classic.engine import ClassicEngine
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.options import EngineOptions
from stoker.engine.router import EngineRouter
from stoker.engine.spark_access import check_spark_access
from stoker.gateways.leases import LeaseOptions
from stoker.ha.stores.shutdowns import ShutdownFollower
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.heartbeat.options import HeartbeatOptions
from stoker.metrics.process import machine_memory
from stoker.processes.announcement import (
    EXECUTOR_FILE,
    Announce,
    Announcement,
    address_file,
    ignore_announcement,
)
from stoker.processes.directories import Directories
from stoker.processes.inspection.endpoint import Inspection
from stoker.processes.inspection.usage import cores
from stoker.processes.metrics_server import serving_metrics
from stoker.processes.opening import open_first_session, open_process_resources
from stoker.processes.shutdown import exit_code_of, first_of, shutdown_signals
from stoker.processes.uncaught import uncaught_errors
from stoker.rpc.options import RegistrationOptions
from stoker.storage.room import check_free_space
from stoker.taskexecutor.endpoint import TaskExecutor
from stoker.taskexecutor.options import TaskExecutorOptions
from stoker.taskexecutor.run import running_task_executor
from stoker.taskexecutor.services import TaskExecutorServices
from stoker.taskexecutor.slots import FileSlotStore
from stoker.taskexecutor.tasks import TaskServices

log = logging.getLogger(__name__)


async def run_task_executor(
    configuration: Configuration, announce: Announce = ignore_announcement
) -> int:
    """Run until SIGTERM, SIGINT, the end of a drain, or the end of the cluster.

    An error that ends the task executor is raised.
    """
    bind_log_fields(component="taskexecutor")
    handling = configuration.of(ProcessOptions).uncaught_exceptions
    shutdowns = ShutdownFollower()
    async with (
        shutdown_signals() as asked,
        uncaught_errors(handling) as uncaught,
        task_executor_process(configuration, shutdowns) as executor,
        TaskScope("task executor process") as scope,
    ):
        scope.spawn("uncaught errors", uncaught.raise_first())
        resource_id = executor.introduction().resource_id
        log.info("task executor %s serves at %s", resource_id, executor.address)
        announce(Announcement(id=resource_id, address=executor.address))
        await first_of(asked, executor.drained, shutdowns.over)
    return 0 if shutdowns.last is None else exit_code_of(shutdowns.last.status)


@asynccontextmanager
async def task_executor_process(
    configuration: Configuration, shutdowns: ShutdownFollower
) -> AsyncIterator[TaskExecutor]:
    ids = Ids()
    options = configuration.of(TaskExecutorProcessOptions)
    async with AsyncExitStack() as stack:
        resources = await open_process_resources(
            stack,
            configuration,
            options,
            ids=ids,
            kind="executor",
            bind_host_key="taskmanager.bind-host",
            host_key="taskmanager.host",
            is_over=shutdowns.over.is_set,
        )
        resource_id, directories = resources.resource_id, resources.directories
        bind_log_fields(task_executor=resource_id)
        rpc, storage = resources.rpc, resources.storage
        await stack.enter_async_context(
            rpc.running(Inspection(directories.logs, resources.metrics))
        )
        metrics = resources.metrics.process
        coordinator = await open_first_session(
            configuration, ids, auto_renewing=True, metrics=metrics.group(session="executor")
        )
        stack.push_async_callback(coordinator.close)
        watching = await stack.enter_async_context(TaskScope("end of the cluster"))
        watching.spawn("shutdown", shutdowns.run(coordinator))
        blobs = await stack.enter_async_context(
            BlobCache(
                directories.work / "artifacts", configuration.of(BlobOptions), storage=storage
            )
        )
        metrics_url = await stack.enter_async_context(serving_metrics(configuration, resources))
        if metrics_url:
            log.info("task executor %s shows its metrics at %s", resource_id, metrics_url)
        engine = await stack.enter_async_context(_open_engines(configuration, directories))
        executor = await stack.enter_async_context(
            running_task_executor(
                TaskExecutorServices(
                    rpc=rpc,
                    coordinator=coordinator,
                    tasks=TaskServices(
                        engine=engine,
                        blobs=blobs,
                        storage=storage,
                        outcomes=OutcomeStore(storage),
                        wall_clock=system_wall_clock,
                        work_dir=directories.work,
                        log_dir=directories.logs,
                        off_loop=asyncio.to_thread,
                        metrics=metrics,
                        resource_id=resource_id,
                        check_room_for_logs=partial(
                            check_free_space,
                            storage,
                            reserve=int(configuration.of(BlobOptions).storage_reserve),
                            option="blob.storage.min-free",
                        ),
                    ),
                    resource_id=resource_id,
                    metrics=metrics,
                    metrics_url=metrics_url,
                    instance=ids.instance(),
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    cores=cores(),
                    memory_bytes=machine_memory(),
                    on_demand=options.on_demand,
                    slot_store=FileSlotStore(directories.work / "slots"),
                    options=configuration.of(TaskExecutorOptions),
                    heartbeat=configuration.of(HeartbeatOptions),
                    lease=configuration.of(LeaseOptions),
                    registration=configuration.of(RegistrationOptions),
                )
            )
        )
        watching.spawn("child processes", executor.children.run())
        record = {"rpc_address": executor.address, "metrics_url": metrics_url}
        stack.enter_context(address_file(directories.work / EXECUTOR_FILE, record))
        yield executor


@asynccontextmanager
async def _open_engines(
    configuration: Configuration, directories: Directories
) -> AsyncIterator[EngineRouter]:
    options, classic = _engine_options(configuration), configuration.of(ClassicOptions)
    unknown = set(classic.engines) - set(EngineKind)
    if unknown:
        raise StartupFailed(
            f"taskmanager.engines: there is no engine {', '.join(sorted(unknown))}; write connect, "
            "classic or both"
        )
    work = directories.work / "engine"
    async with AsyncExitStack() as stack:
        shared: ConnectEngine | None = None
        own: ClassicEngine | None = None
        if EngineKind.CONNECT in classic.engines:
            shared = await stack.enter_async_context(
                ConnectEngine.open(
                    options, work, log_dir=directories.logs, wall_clock=system_wall_clock
                )
            )
        if EngineKind.CLASSIC in classic.engines:
            own = await stack.enter_async_context(
                ClassicEngine.open(
                    options,
                    classic,
                    work / "classic",
                    directories.logs,
                    environments_dir=directories.work.parent / "environments",
                    wall_clock=system_wall_clock,
                )
            )
        yield EngineRouter(connect=shared, classic=own)


def _engine_options(configuration: Configuration) -> EngineOptions:
    options = configuration.of(EngineOptions)
    merged = replace(options, spark_properties={**configuration.spark, **options.spark_properties})
    check_spark_access(merged)
    return merged
