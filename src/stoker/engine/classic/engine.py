"""The classic engine: a driver process with a JVM for each task, and spare drivers kept warm.

It runs code that may need a SparkContext, RDDs or a JVM in reach, which Spark Connect does not
offer: programs and pipelines, unless they use the connect engine. Tasks share nothing, so each of
them ends with its driver. The price is the memory of a JVM for each task, and the seconds that it
takes to start, which spare drivers hide from most tasks.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from stoker.aio.clock import WallClock, system_wall_clock
from stoker.core.errors import StartupFailed, StokerError, Unavailable
from stoker.core.ids import Ids
from stoker.engine.classic.driver_client import DriverSetup
from stoker.engine.classic.environments import PythonEnvironments
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.classic.package_sources import package_sources
from stoker.engine.classic.pool import DriverPool
from stoker.engine.classic.task import ClassicTask
from stoker.engine.contract import EngineFigures, EngineState, Listener, Task
from stoker.engine.inherited_variables import for_installers
from stoker.engine.java import bundled_java_home, find_java
from stoker.engine.limits import RunnerLimits, limits_of, machine_memory
from stoker.engine.options import EngineOptions

log = logging.getLogger(__name__)


class ClassicEngine:
    """Open it on the main thread: children die with the thread that started them."""

    def __init__(
        self,
        setup: DriverSetup,
        environments: PythonEnvironments,
        *,
        ids: Ids,
        wall_clock: WallClock,
    ) -> None:
        self._setup = setup
        self._environments = environments
        self._wall_clock = wall_clock
        self._pool = DriverPool(setup, ids)
        self._machine_memory = machine_memory()
        self._tasks: set[ClassicTask] = set()
        self._pool_task: asyncio.Task[None] | None = None
        self._spark_version = ""
        self._closed = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        options: EngineOptions,
        classic: ClassicOptions,
        work_dir: Path,
        log_dir: Path,
        *,
        environments_dir: Path | None = None,
        ids: Ids | None = None,
        wall_clock: WallClock = system_wall_clock,
        environ: Mapping[str, str] = os.environ,
    ) -> AsyncIterator["ClassicEngine"]:
        """Start no driver unless the options say so; raise StartupFailed if there is no Java."""
        work = work_dir.absolute()  # noqa: ASYNC240
        java = await find_java(environ, work / "java", bundled_home=bundled_java_home())
        ids = ids or Ids()
        setup = DriverSetup(
            options=options,
            classic=classic,
            java=java,
            work=work,
            logs=log_dir.absolute(),  # noqa: ASYNC240
        )
        environments = PythonEnvironments(
            environments_dir or work / "environments",
            ids,
            timeout=classic.environment_timeout,
            kept=classic.environments_kept,
            environment=for_installers(environ, options.passed_variables),
            sources=package_sources(classic),
        )
        engine = cls(setup, environments, ids=ids, wall_clock=wall_clock)
        engine._pool_task = asyncio.create_task(engine._pool.run(), name="keep-drivers")
        try:
            yield engine
        finally:
            await engine.close()

    @property
    def state(self) -> EngineState:
        return EngineState.READY

    @property
    def description(self) -> Mapping[str, str]:
        return {
            "spark-version": self._spark_version,
            "spark-master": self._setup.options.master,
            "java-version": str(self._setup.java.version),
            "java-home": str(self._setup.java.home),
            "classic-drivers-ready": str(self._pool.ready),
            "classic-drivers-busy": str(len(self._tasks)),
        }

    @property
    def figures(self) -> EngineFigures:
        return EngineFigures(warm_drivers=self._pool.ready)

    async def wait_until_ready(self) -> None:
        """Wait for a warm driver, unless the options keep none."""
        if self._setup.classic.warm_drivers > 0:
            try:
                self._spark_version = await self._pool.wait_until_warm()
            except StokerError as error:
                raise StartupFailed(f"the classic engine does not start: {error}") from error

    async def launch(self, task: Task, listener: Listener) -> ClassicTask:
        if self._closed:
            raise Unavailable("the Spark engine is closed")
        running = ClassicTask(
            task,
            self._pool,
            listener,
            install=self._environments.install_for,
            limits=self._limits_of(task),
            run_time=self._setup.options.runner_run_time,
            grace=self._setup.options.cancellation_grace,
            wall_clock=self._wall_clock,
        )
        self._tasks.add(running)
        running.completion.add_done_callback(lambda _: self._tasks.discard(running))
        return running

    def _limits_of(self, task: Task) -> RunnerLimits:
        """The memory that a job asks for is for Spark and its workers, not for a program's own."""
        options, asked = self._setup.options, task.graph.profile.memory_bytes
        workers = limits_of(options, self._machine_memory, asked)
        limits = limits_of(options, self._machine_memory)
        return msgspec.structs.replace(limits, worker_memory=workers.memory)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(task.kill() for task in self._tasks))
        if self._pool_task is not None:
            self._pool_task.cancel()
            await asyncio.wait([self._pool_task])
            if not self._pool_task.cancelled() and (error := self._pool_task.exception()):
                log.error("the pool of spare drivers failed", exc_info=error)
