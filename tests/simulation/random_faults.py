"""Seeds of random runs, and the random faults that such a run injects into a cluster.

`TEST_SEEDS=1000` runs that many seeds instead of the usual few, `TEST_FIRST_SEED=77` starts at
77. A failure names its seed.
"""

import asyncio
import os

from stoker.ha.memory import Loss
from stoker.testing.process_view import Slowness
from stoker.testing.simulated_cluster import SESSION_TIMEOUT, SimulatedCluster

FIRST = int(os.environ.get("TEST_FIRST_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("TEST_SEEDS", "60")))


class FaultInjector:
    """Injects one fault after the other; each fault is undone before the scenario ends."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.random = cluster.random
        self.faults = (
            self.kill,
            self.kill,
            self.stop,
            self.cut_off_one_process,
            self.cut_one_connection,
            self.isolate,
            self.suspend_coordinator,
            self.lose_a_commit,
            self.freeze,
            self.freeze,
            self.make_storage_unavailable,
            self.slow_storage,
            self.slow_coordinator,
            self.slow_network,
            self.lossy_network,
        )

    async def inject(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            await self.pause(15)
            await self.random.choice(self.faults)()
        # A process that lost its session ends its tasks before it ends itself.
        await asyncio.sleep(15)
        await self.restart_ended_processes()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(self.random.uniform(0, seconds))

    def any_process(self) -> str:
        return self.random.choice(sorted(self.cluster.processes))

    async def restart_ended_processes(self) -> None:
        for name in self.cluster.ended_by_themselves():
            await self.cluster.kill(name)
            self.cluster.start(name)

    async def kill(self) -> None:
        name = self.any_process()
        await self.cluster.kill(name)
        await self.pause(20)
        self.cluster.start(name)

    async def stop(self) -> None:
        name = self.any_process()
        await self.cluster.stop(name)
        await self.pause(20)
        self.cluster.start(name)

    async def cut_off_one_process(self) -> None:
        self.cluster.cut_off(self.any_process())
        await self.pause(40)
        self.cluster.network.heal()

    async def cut_one_connection(self) -> None:
        self.cluster.network.partition(*self.random.sample(sorted(self.cluster.processes), 2))
        await self.pause(40)
        self.cluster.network.heal()

    async def isolate(self) -> None:
        """Cut off one process; a cut-off executor must end its attempts by itself, in time."""
        name = self.any_process()
        self.cluster.cut_off(name)
        self.cluster.coordination.suspend(self.cluster.processes[name].session)
        await self.pause(120)
        self.cluster.network.heal()
        self.cluster.coordination.resume(self.cluster.processes[name].session)
        await asyncio.sleep(1)
        await self.restart_ended_processes()

    async def suspend_coordinator(self) -> None:
        """Suspend the session of one process or of all; a long outage ends these processes."""
        names = (
            [self.any_process()] if self.random.random() < 0.7 else sorted(self.cluster.processes)
        )
        sessions = [self.cluster.processes[name].session for name in names]
        for session in sessions:
            self.cluster.coordination.suspend(session)
        await self.pause(SESSION_TIMEOUT * 1.5)
        for session in sessions:
            self.cluster.coordination.resume(session)
        await asyncio.sleep(1)
        await self.restart_ended_processes()

    async def lose_a_commit(self) -> None:
        master = self.random.choice([n for n in self.cluster.processes if n.startswith("master")])
        session = self.cluster.processes[master].session
        self.cluster.coordination.lose_next_commit(session, self.random.choice(list(Loss)))
        await self.pause(20)
        self.cluster.coordination.heal(session)
        await asyncio.sleep(1)
        await self.restart_ended_processes()

    async def make_storage_unavailable(self) -> None:
        self.cluster.storage.go_away()
        await self.pause(30)
        self.cluster.storage.come_back()

    async def freeze(self) -> None:
        """Freeze a process for less or more than a session or a lease, then wake it up."""
        name = self.any_process()
        self.cluster.freeze(name)
        await self.pause(self.random.choice([SESSION_TIMEOUT, 3 * SESSION_TIMEOUT, 150]))
        lag = self.random.choice([0, 0.1, 2])
        self.cluster.thaw(name, contact_after=lag)
        await asyncio.sleep(lag + 15)
        await self.restart_ended_processes()

    async def slow_storage(self) -> None:
        await self.slow_down(self.cluster.slow_storage)

    async def slow_coordinator(self) -> None:
        await self.slow_down(self.cluster.slow_coordinator)

    async def slow_down(self, what: Slowness) -> None:
        what.seconds = self.random.choice([0.2, 2, 10])
        await self.pause(40)
        what.seconds = 0

    async def slow_network(self) -> None:
        faults = self.cluster.faults
        faults.usual_delay, faults.long_delay, faults.long_share = 0.05, 25.0, 0.1
        await self.pause(40)
        faults.calm_down()

    async def lossy_network(self) -> None:
        faults = self.cluster.faults
        faults.usual_delay, faults.lost_share = 0.5, self.random.uniform(0.01, 0.3)
        await self.pause(40)
        faults.calm_down()
