"""The connect engine: one warm Spark Connect server, and a runner process for each task.

Runners are forked from a zygote that has imported PySpark, and stand ready in a pool with an open
session, so that a small job starts in milliseconds. Server, zygote and pool are supervised: each is
restarted when it dies. `close` ends them in an order in which nothing is left behind.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from stoker.aio.clock import WallClock, system_wall_clock
from stoker.core.errors import Unavailable
from stoker.core.ids import Ids
from stoker.engine.connect.jvm_metrics import JvmSampler
from stoker.engine.connect.pool import RunnerPool
from stoker.engine.connect.recycling import ServerRecycling
from stoker.engine.connect.server import SparkServer, running_server
from stoker.engine.connect.session_cleanup import SessionCleanup
from stoker.engine.connect.supervised import Supervised
from stoker.engine.connect.task import ConnectTask, TaskResources
from stoker.engine.connect.zygote_client import ZygoteClient, running_zygote
from stoker.engine.contract import EngineFigures, EngineState, Listener, Task
from stoker.engine.inherited_variables import for_jobs
from stoker.engine.java import Java, bundled_java_home, find_java
from stoker.engine.limits import machine_memory
from stoker.engine.options import EngineOptions
from stoker.engine.server_config import ServerFiles
from stoker.engine.spark_page import without_token
from stoker.osproc.orphans import kill_orphans

logger = logging.getLogger(__name__)


class ConnectEngine:
    """Open it on the main thread: children die with the thread that started them."""

    def __init__(
        self,
        options: EngineOptions,
        java: Java,
        files: ServerFiles,
        *,
        ids: Ids,
        wall_clock: WallClock,
    ) -> None:
        self._options = options
        self._java = java
        self._files = files
        self._ids = ids
        delays = {
            "restart_delay": options.restart_delay,
            "max_restart_delay": options.max_restart_delay,
        }
        self._server: Supervised[SparkServer] = Supervised(
            "the Spark server", self._start_server, **delays
        )
        self._zygote: Supervised[ZygoteClient] = Supervised(
            "the zygote", self._start_zygote, **delays
        )
        self._pool = RunnerPool(options, self._server, self._zygote, ids)
        self._resources = TaskResources(
            options=options,
            machine_memory=machine_memory(),
            pool=self._pool,
            sessions=SessionCleanup(self._zygote),
            wall_clock=wall_clock,
        )
        self._generations = 0
        self._jvm = JvmSampler(self._server)
        self._recycling = ServerRecycling(options, self._server, self._pool)
        self._parts: list[asyncio.Task[None]] = []
        self._closed = False
        self._spark_version = ""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        options: EngineOptions,
        work_dir: Path,
        log_dir: Path,
        *,
        ids: Ids | None = None,
        wall_clock: WallClock = system_wall_clock,
        environ: Mapping[str, str] = os.environ,
    ) -> AsyncIterator["ConnectEngine"]:
        """Begin to start Spark in the background; raise StartupFailed if there is no Java."""
        work = work_dir.absolute()  # noqa: ASYNC240
        await asyncio.to_thread(kill_orphans)
        java = await find_java(environ, work / "java", bundled_home=bundled_java_home())
        files = ServerFiles(work=work, logs=log_dir.absolute())  # noqa: ASYNC240
        engine = cls(options, java, files, ids=ids or Ids(), wall_clock=wall_clock)
        engine._start_parts()
        try:
            yield engine
        finally:
            await engine.close()

    def _start_server(self) -> AbstractAsyncContextManager[SparkServer]:
        self._generations += 1
        self._files = replace(self._files, generation=self._generations)
        return running_server(self._options, self._java, self._files, self._ids.nonce())

    def _start_zygote(self) -> AbstractAsyncContextManager[ZygoteClient]:
        return running_zygote(
            self._files.logs / "zygote.log",
            int(self._options.runner_log_size),
            for_jobs(os.environ, self._options.passed_variables),
            self._options.runner_umask,
        )

    def _start_parts(self) -> None:
        self._parts = [
            asyncio.create_task(part.run(), name=name)
            for part, name in (
                (self._zygote, "supervise-zygote"),
                (self._server, "supervise-spark-server"),
                (self._pool, "fill-runner-pool"),
                (self._recycling, "recycle-spark-server"),
                (self._jvm, "sample-spark-server"),
            )
        ]

    @property
    def state(self) -> EngineState:
        return self._server.state

    @property
    def description(self) -> Mapping[str, str]:
        server = self._server.current
        zygote = self._zygote.current
        return {
            "spark-version": self._spark_version,
            "spark-master": self._options.master,
            "java-version": str(self._java.version),
            "java-home": str(self._java.home),
            "heap-bytes": str(int(self._options.heap)),
            "server-pid": str(server.pid) if server else "",
            "server-log": str(self._files.log),
            "zygote-pid": str(zygote.pid) if zygote else "",
            "web-ui": without_token(server.ui) if server else "",
        }

    @property
    def figures(self) -> EngineFigures:
        server, zygote = self._server.current, self._zygote.current
        return EngineFigures(
            warm_runners=self._pool.ready,
            server_pid=server.pid if server else None,
            zygote_pid=zygote.pid if zygote else None,
            server=self._jvm.figures,
        )

    async def wait_until_ready(self) -> None:
        self._spark_version = await self._pool.wait_until_warm()

    async def launch(self, task: Task, listener: Listener) -> ConnectTask:
        if self._closed:
            raise Unavailable("the Spark engine is closed")
        runner = await self._pool.take(task.owner)
        if self._closed:
            await runner.process.kill()
            raise Unavailable("the Spark engine was closed before the task started")
        self._spark_version = runner.spark_version
        running = ConnectTask(task, runner, listener, self._resources)
        self._recycling.add(running)
        return running

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(task.kill() for task in self._recycling.tasks))
        # In reverse order of start: runners, then the server, then the zygote.
        for part in reversed(self._parts):
            part.cancel()
            await asyncio.wait([part])
        for part in self._parts:
            if not part.cancelled() and (error := part.exception()) is not None:
                logger.error("a part of the Spark engine had failed", exc_info=error)
