"""`python -m bench.sleeping_executor DIRECTORY SLOTS`: a task executor whose tasks only sleep.

Everything but the engine is real. Many jobs can run there with little load on the machine.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from stoker import Pipeline
from stoker.aio.clock import system_wall_clock
from stoker.blob.cache import BlobCache
from stoker.blob.options import BlobOptions
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids, ResourceId
from stoker.ha.embedded.coordinator import EmbeddedCoordinator
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.rpc.grpc_transport import open_grpc
from stoker.security.cluster_secret import FILE_NAME, read_or_make_secret
from stoker.storage.open import open_storage
from stoker.taskexecutor.options import TaskExecutorOptions
from stoker.taskexecutor.run import running_task_executor
from stoker.taskexecutor.services import TaskExecutorServices
from stoker.taskexecutor.tasks import TaskServices
from stoker.testing.fake_engine import FakeEngine
from stoker.testing.history import History

NAME = "sleeping-executor"


async def run(directory: Path, slots: int) -> None:
    """Serve the local cluster in this directory until killed; its coordinator is embedded."""
    ids = Ids()
    storage = open_storage(str(directory / "storage"))
    work = directory / NAME
    async with AsyncExitStack() as stack:
        secret = read_or_make_secret(directory / "storage" / FILE_NAME)
        rpc = await open_grpc("127.0.0.1", ids=ids, secret=secret)
        stack.push_async_callback(rpc.close)
        coordinator = await EmbeddedCoordinator.open(
            directory / "storage" / "coordinator", session=ids.session(), auto_renewing=True
        )
        stack.push_async_callback(coordinator.close)
        blobs = await stack.enter_async_context(
            BlobCache(work / "artifacts", BlobOptions(), storage=storage)
        )
        services = TaskExecutorServices(
            rpc=rpc,
            coordinator=coordinator,
            tasks=TaskServices(
                engine=FakeEngine(NAME, History(), system_wall_clock),
                blobs=blobs,
                storage=storage,
                outcomes=OutcomeStore(storage),
                wall_clock=system_wall_clock,
                work_dir=work,
                log_dir=work / "log",
            ),
            resource_id=ResourceId(NAME),
            instance=ids.instance(),
            options=TaskExecutorOptions(slots=slots),
        )
        await stack.enter_async_context(running_task_executor(services))
        await asyncio.get_running_loop().create_future()


@contextmanager
def running_sleepers(directory: Path, slots: int) -> Iterator[None]:
    """Run this module in a process, for the local cluster in the directory."""
    command = [sys.executable, "-m", "bench.sleeping_executor", str(directory), str(slots)]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def endless_job() -> JobGraph:
    """A stream that sleeps at such a task executor for ever."""
    pipeline = Pipeline("sleep", configuration={"fake.seconds": "1e6"})
    pipeline.source("ticks", format="rate", streaming=True)
    pipeline.sink("ticks", name="out", format="noop", trigger="1 second")
    return pipeline.build(job_id=Ids().job())


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
