"""When a Spark server is replaced: after so many tasks, or when it holds so much memory.

What runs on the old one runs on; new work goes to the new one. The old one ends with its last task.
"""

import asyncio
from collections import Counter

from stoker.core.failpoints import failpoint
from stoker.engine.connect.pool import RunnerPool
from stoker.engine.connect.server import SparkServer
from stoker.engine.connect.supervised import Kept
from stoker.engine.connect.task import ConnectTask
from stoker.engine.options import EngineOptions
from stoker.osproc.process_tree import resident_bytes


def is_old(options: EngineOptions, tasks: int, memory: int) -> bool:
    if options.recycle_after_tasks is not None and tasks >= options.recycle_after_tasks:
        return True
    return options.recycle_at_memory is not None and memory >= options.recycle_at_memory


class ServerAge:
    def __init__(self, options: EngineOptions, server: Kept[SparkServer], pool: RunnerPool) -> None:
        self._options = options
        self._server = server
        self._pool = pool
        self._had: Counter[int] = Counter()
        """How many tasks each server has had, by its process."""
        self._ended = asyncio.Event()
        self.tasks: set[ConnectTask] = set()

    def begun(self, task: ConnectTask) -> None:
        self.tasks.add(task)
        self._had[task.server.pid] += 1
        task.following.add_done_callback(lambda _: self._over(task))

    def _over(self, task: ConnectTask) -> None:
        self.tasks.discard(task)
        if not any(other.server is task.server for other in self.tasks):
            self._server.let_go(task.server)
        self._ended.set()

    async def run(self) -> None:
        while True:
            await self._ended.wait()
            self._ended.clear()
            server = self._server.current
            if server is None or not self._is_old(server):
                continue
            failpoint("recycling.before-replacing")
            self._server.replace()
            await self._server.wait_until_replaced()
            failpoint("recycling.after-replacing")
            if server is not self._server.current:
                await self._pool.renew()
                if not any(task.server is server for task in self.tasks):
                    self._server.let_go(server)

    def _is_old(self, server: SparkServer) -> bool:
        return is_old(self._options, self._had[server.pid], resident_bytes(server.pid))
