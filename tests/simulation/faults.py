"""Deaths of leaders, deaths of processes at failpoints, and files that may not be read."""

import asyncio
import errno

import pytest

from stoker.aio.latest import Latest
from stoker.storage.contract import storage_unavailable
from stoker.storage.memory import MemoryStorage
from stoker.testing.simulated_cluster import Process, SimulatedCluster
from stoker.testing.virtual_time import running_process


def leader_of(cluster: SimulatedCluster) -> str:
    """Name of the leading master; there must be one."""
    leader = cluster.leader()
    assert leader is not None
    return leader


async def kill_leader(cluster: SimulatedCluster) -> str:
    """Kill the leading master, which is not restarted; returns its name."""
    leader = leader_of(cluster)
    await cluster.kill(leader)
    return leader


async def fail_over(cluster: SimulatedCluster) -> None:
    """Kill the leader; restart it as a standby when another master leads."""
    leader = await kill_leader(cluster)
    await asyncio.sleep(10)
    cluster.start(leader)


def deny_reads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The returned set of paths is empty; reading a path that is added to it is not permitted."""
    denied: set[str] = set()
    read = MemoryStorage.read

    async def read_unless_denied(
        storage: MemoryStorage, path: str, *, limit: int | None = None
    ) -> bytes:
        if path in denied:
            error = PermissionError(errno.EACCES, "Permission denied")
            raise storage_unavailable("read", path, error)
        return await read(storage, path, limit=limit)

    monkeypatch.setattr(MemoryStorage, "read", read_unless_denied)
    return denied


def hang_reads(monkeypatch: pytest.MonkeyPatch) -> dict[str, asyncio.Event]:
    """The returned mapping is empty; reading a path that is added to it waits for its event."""
    hanging: dict[str, asyncio.Event] = {}
    read = MemoryStorage.read

    async def read_when_it_no_longer_hangs(
        storage: MemoryStorage, path: str, *, limit: int | None = None
    ) -> bytes:
        if path in hanging:
            await hanging[path].wait()
        return await read(storage, path, limit=limit)

    monkeypatch.setattr(MemoryStorage, "read", read_when_it_no_longer_hangs)
    return hanging


class ProcessKiller:
    """Kills the process that reaches a failpoint for the nth time."""

    def __init__(self, cluster: SimulatedCluster, hit: int = 1) -> None:
        self.cluster = cluster
        self.hits_left = hit
        self.dead: Latest[Process | None] = Latest(None)

    def reached(self) -> None:
        """The action to arm the failpoint with."""
        name = running_process.get()
        # The code of a dead process may still run for a moment.
        if name in self.cluster.processes:
            self.hits_left -= 1
            if self.hits_left == 0:
                self.dead.set(self.cluster.crash(name))

    async def wait_for_death(self) -> Process:
        """The dead process, after the last of its code has run."""
        dead = await self.dead.wait_until(lambda process: process is not None)
        assert dead is not None
        await asyncio.gather(dead.task, return_exceptions=True)
        return dead
