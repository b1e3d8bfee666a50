"""The task executor process: a Spark engine, and slots to run tasks on it."""

import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from stoker.aio.clock import system_wall_clock
from stoker.blob.cache import BlobCache
from stoker.blob.options import BlobOptions
from stoker.config.configuration import Configuration
from stoker.config.processes import ClusterOptions, ProcessOptions, TaskExecutorProcessOptions
from stoker.core.ids import Ids, ResourceId
from stoker.engine.connect_engine import ConnectEngine
from stoker.engine.options import EngineOptions
from stoker.gateways.leases import LeaseOptions
from stoker.ha.stores.outcomes import OutcomeStore
from stoker.heartbeat.options import HeartbeatOptions
from stoker.processes.address_file import address_left_at
from stoker.processes.coordination import open_first_session
from stoker.processes.directories import directories_for, storage_url
from stoker.processes.shutdown import shutdown_signals
from stoker.rpc.grpc_transport import open_grpc
from stoker.rpc.options import RegistrationOptions, RpcOptions
from stoker.security.binding import check_binding
from stoker.storage.open import open_storage
from stoker.taskexecutor.endpoint import TaskExecutor, TaskExecutorServices
from stoker.taskexecutor.options import TaskExecutorOptions
from stoker.taskexecutor.run import running_task_executor
from stoker.taskexecutor.tasks import TaskServices

log = logging.getLogger(__name__)

ADDRESS_FILE = "task-executor.json"


async def run_task_executor(configuration: Configuration) -> None:
    """Until SIGTERM or SIGINT; an error that ends the task executor is raised."""
    async with (
        shutdown_signals() as asked,
        task_executor_process(configuration) as executor,
    ):
        log.info(
            "task executor %s serves at %s", executor.introduction().resource_id, executor.address
        )
        await asked.wait()


@asynccontextmanager
async def task_executor_process(configuration: Configuration) -> AsyncIterator[TaskExecutor]:
    ids = Ids()
    options = configuration.of(TaskExecutorProcessOptions)
    cluster = configuration.of(ClusterOptions)
    resource_id = ResourceId(options.resource_id or ids.resource("executor"))
    directories = directories_for(resource_id, configuration.of(ProcessOptions))
    check_binding(options.bind_host, "taskmanager.bind-host", authenticated=False)
    async with AsyncExitStack() as stack:
        rpc = await open_grpc(
            options.bind_host, options.rpc_port, configuration.of(RpcOptions), ids=ids
        )
        stack.push_async_callback(rpc.close)
        storage = open_storage(storage_url(cluster))
        coordinator = await open_first_session(configuration, ids, lasting=True)
        stack.push_async_callback(coordinator.close)
        blobs = await stack.enter_async_context(
            BlobCache(
                directories.work / "artifacts", configuration.of(BlobOptions), storage=storage
            )
        )
        engine = await stack.enter_async_context(
            ConnectEngine.open(
                _engine_options(configuration),
                work_dir=directories.work / "engine",
                log_dir=directories.logs,
                wall_clock=system_wall_clock,
            )
        )
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
                    ),
                    resource_id=resource_id,
                    instance=ids.instance(),
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    cores=os.cpu_count() or 1,
                    memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                    options=configuration.of(TaskExecutorOptions),
                    heartbeat=configuration.of(HeartbeatOptions),
                    lease=configuration.of(LeaseOptions),
                    registration=configuration.of(RegistrationOptions),
                )
            )
        )
        record = {"rpc_address": executor.address}
        stack.enter_context(address_left_at(directories.work / ADDRESS_FILE, record))
        yield executor


def _engine_options(configuration: Configuration) -> EngineOptions:
    options = configuration.of(EngineOptions)
    return replace(options, spark_properties={**configuration.spark, **options.spark_properties})
