"""Fetches the metrics of task executors, each with one call, and not more often than configured.

A dashboard asks for the metrics of every task executor every few seconds, and so does each further
one. All requests within an interval share one round of calls.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from stoker.core.errors import StokerError
from stoker.core.ids import InstanceId, ResourceId
from stoker.gateways.inspection import InspectionGateway
from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.metrics.registry import MetricFamily

AT_ONCE = 32
FindProcess = Callable[[str], Awaitable[InspectionGateway]]
"""Finds the inspection endpoint of the process at an address."""
Dumps = dict[ResourceId, list[MetricFamily]]
"""All metrics of each task executor that answered."""


class MetricFetcher:
    def __init__(self, interval: timedelta = timedelta(seconds=10)) -> None:
        """`interval`: how old metrics may be; 0 switches the fetcher off."""
        self._interval = interval.total_seconds()
        self._dumps: Dumps = {}
        self._asked: set[InstanceId] = set()
        self._began_at: float | None = None
        self._round = asyncio.Lock()

    async def fetch(
        self, executors: Sequence[TaskExecutorDetails], find: FindProcess | None
    ) -> Dumps:
        """The metrics of these task executors, as old as the interval at most.

        One that does not answer is left out.
        """
        if self._interval <= 0 or find is None:
            return {}
        async with self._round:
            now = asyncio.get_running_loop().time()
            if self._began_at is None or now - self._began_at >= self._interval:
                self._dumps, self._asked, self._began_at = {}, set(), now
            # A task executor that came since the last round is asked at once.
            unasked = [each for each in executors if each.instance not in self._asked]
            self._asked |= {each.instance for each in unasked}
            self._dumps |= await _ask_all(unasked, find)
        present = {each.resource_id for each in executors}
        return {name: dump for name, dump in self._dumps.items() if name in present}


async def _ask_all(executors: Sequence[TaskExecutorDetails], find: FindProcess) -> Dumps:
    turns = asyncio.Semaphore(AT_ONCE)

    async def ask(executor: TaskExecutorDetails) -> list[MetricFamily] | None:
        async with turns:
            try:
                return await (await find(executor.address)).metrics()
            except StokerError:
                # A task executor that has just ended must not hide the others.
                return None

    answers = await asyncio.gather(*map(ask, executors))
    return {
        executor.resource_id: answer
        for executor, answer in zip(executors, answers, strict=True)
        if answer is not None
    }
