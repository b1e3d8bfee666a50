"""Replaces a Spark server after a number of tasks, or when it holds too much memory.

Running tasks stay at the old server and new tasks go to the new one. The old server ends with its
last task.
"""

import asyncio
from collections import Counter

from stoker.core.failpoints import failpoint
from stoker.engine.connect.pool import RunnerPool
from stoker.engine.connect.server import SparkServer
from stoker.engine.connect.supervised import Supervised
from stoker.engine.connect.task import ConnectTask
from stoker.engine.options import EngineOptions
from stoker.osproc.process_tree import resident_bytes


def should_recycle(options: EngineOptions, tasks: int, memory: int) -> bool:
    if options.recycle_after_tasks is not None and tasks >= options.recycle_after_tasks:
        return True
    return options.recycle_at_memory is not None and memory >= options.recycle_at_memory


class ServerRecycling:
    def __init__(
        self, options: EngineOptions, server: Supervised[SparkServer], pool: RunnerPool
    ) -> None:
        self._options = options
        self._server = server
        self._pool = pool
        self._task_counts: Counter[int] = Counter()
        """Number of tasks that each server has run, by process id."""
        self._task_ended = asyncio.Event()
        self.tasks: set[ConnectTask] = set()

    def add(self, task: ConnectTask) -> None:
        self.tasks.add(task)
        self._task_counts[task.server.pid] += 1
        task.completion.add_done_callback(lambda _: self._on_task_end(task))

    def _on_task_end(self, task: ConnectTask) -> None:
        self.tasks.discard(task)
        if not any(other.server is task.server for other in self.tasks):
            self._server.release(task.server)
        self._task_ended.set()

    async def run(self) -> None:
        while True:
            await self._task_ended.wait()
            self._task_ended.clear()
            server = self._server.current
            if server is None or not self._should_recycle(server):
                continue
            failpoint("recycling.before-replacing")
            self._server.replace()
            await self._server.wait_until_replaced()
            failpoint("recycling.after-replacing")
            if server is not self._server.current:
                await self._pool.dismiss_stale_spares()
                if not any(task.server is server for task in self.tasks):
                    self._server.release(server)

    def _should_recycle(self, server: SparkServer) -> bool:
        return should_recycle(
            self._options, self._task_counts[server.pid], resident_bytes(server.pid)
        )
