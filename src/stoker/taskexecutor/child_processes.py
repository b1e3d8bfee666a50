"""Memory of the child processes of a task executor, by what they are for."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from stoker.engine.contract import EngineFigures
from stoker.osproc.process_tree import descendants_of, resident_bytes

INTERVAL_SECONDS = 10.0
SPARK_SERVER = "spark_server"
PYTHON_WORKERS = "python_workers"
RUNNERS = "runners"
DRIVERS = "drivers"
KINDS = (SPARK_SERVER, PYTHON_WORKERS, RUNNERS, DRIVERS)


def kinds_of(
    children: Collection[int],
    *,
    server: int | None,
    below_server: Collection[int],
    runners: Collection[int],
) -> Mapping[int, str]:
    """What each child is for. `runners`: the zygote and all below it."""
    kinds = {}
    for pid in children:
        if pid == server:
            kinds[pid] = SPARK_SERVER
        elif pid in below_server:
            kinds[pid] = PYTHON_WORKERS
        elif pid in runners:
            kinds[pid] = RUNNERS
        else:
            kinds[pid] = DRIVERS
    return kinds


class ChildProcesses:
    """Looks at all child processes every ten seconds, in a thread: a JVM has hundreds of threads,
    and the kernel lists the children of each."""

    def __init__(self, figures: Callable[[], EngineFigures]) -> None:
        self._figures = figures
        self.count: Mapping[str, int] = dict.fromkeys(KINDS, 0)
        self.resident: Mapping[str, int] = dict.fromkeys(KINDS, 0)

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def look(self) -> None:
        known = self._figures()
        self.count, self.resident = await asyncio.to_thread(
            _look, known.server_pid, known.zygote_pid
        )


def _look(server: int | None, zygote: int | None) -> tuple[Mapping[str, int], Mapping[str, int]]:
    kinds = kinds_of(
        descendants_of(os.getpid()),
        server=server,
        below_server=descendants_of(server) if server else (),
        runners=(zygote, *descendants_of(zygote)) if zygote else (),
    )
    count, resident = Counter(dict.fromkeys(KINDS, 0)), Counter(dict.fromkeys(KINDS, 0))
    for pid, kind in kinds.items():
        count[kind] += 1
        resident[kind] += resident_bytes(pid)
    return count, resident
