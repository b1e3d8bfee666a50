"""A process is frozen and wakes up with outdated beliefs.

Invariant under attack (invariant 4): nothing that a deposed leader or an expired attempt does after
it wakes up has any effect.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from simulation.faults import leader_of
from simulation.scenarios import FOREVER, MANY_RESTARTS, job, simulate, whole_life
from stoker.aio.latest import Latest
from stoker.core.errors import StokerError
from stoker.core.failpoints import FAILPOINTS, armed
from stoker.core.states import JobStatus
from stoker.ha import keys
from stoker.ha.coordinator import Op
from stoker.testing.process_view import ProcessCoordinator
from stoker.testing.simulated_cluster import SESSION_TIMEOUT, SimulatedCluster
from stoker.testing.virtual_time import running_process

RECORDS = (
    "election.",
    "publication.",
    "job-graphs.",
    "job-results.",
    "cancellations.",
    "attempts.",
)
BEFORE_WRITES = sorted(
    name
    for name in FAILPOINTS
    if name.startswith(RECORDS) and ".before" in name and "pruning" not in name
)
NO_COMMIT_NEXT = {name for name in BEFORE_WRITES if name.endswith("content")} | {
    "job-graphs.before-removing-record"
}
"""Failpoints without a commit right after them: content is written before its record, and a record
is read before it is removed.
"""
LONGER_THAN_A_LEASE = 100.0
MORE_THAN_HALF = 25.0
"""More than half of the shorter work, so that its last step comes due while it is frozen."""


class LateWrites:
    """Records the accepted and the refused writes of one process."""

    def __init__(self, session: ProcessCoordinator) -> None:
        self.accepted: list[Op] = []
        self.refused: list[StokerError] = []
        self._commit = session.commit
        session.commit = self.commit

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        try:
            versions = await self._commit(ops)
        except StokerError as error:
            self.refused.append(error)
            raise
        # Any master, leading or not, may register itself under masters/.
        self.accepted += [op for op in ops if not op.key.startswith("masters/")]
        return versions


class Freezer:
    """Freezes the first master that reaches a failpoint, until another one has led for a while."""

    def __init__(self, cluster: SimulatedCluster, *, trusted: bool) -> None:
        self.cluster = cluster
        self.trusted = trusted
        self.frozen: Latest[str | None] = Latest(None)
        self.writes: LateWrites | None = None

    def reached(self) -> None:
        name = running_process.get()
        if self.frozen.value is None and name.startswith("master"):
            session = self.cluster.processes[name].session
            session.is_trusted = self.trusted
            self.writes = LateWrites(session)
            self.cluster.freeze(name)
            self.frozen.set(name)

    async def wake(self) -> None:
        name = await self.frozen.wait_until(lambda name: name is not None)
        assert name is not None
        await asyncio.sleep(3 * SESSION_TIMEOUT)
        assert self.cluster.leader() not in (None, name)
        self.cluster.thaw(name, contact_after=2)
        await asyncio.sleep(10)
        assert self.cluster.ended_by_themselves() == [name]
        await self.cluster.kill(name)
        self.cluster.start(name)


@pytest.mark.parametrize("trusted", [False, True], ids=["session", "epoch"])
@pytest.mark.parametrize("name", BEFORE_WRITES)
def test_every_late_write_of_a_leader_that_was_frozen_is_refused(
    tmp_path: Path, name: str, trusted: bool
) -> None:
    """The session, or else the epoch, fences a leader frozen right before a write (invariant 4)."""
    freezers: list[Freezer] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        freezer = Freezer(cluster, trusted=trusted)
        freezers.append(freezer)
        waking = asyncio.create_task(freezer.wake())
        with armed(name, freezer.reached):
            await whole_life(cluster)
        await waking

    simulate(tmp_path, scenario)
    writes = freezers[0].writes
    assert writes is not None
    assert writes.accepted == []
    assert writes.refused or name in NO_COMMIT_NEXT


def test_a_leader_that_was_frozen_for_less_than_its_session_keeps_leading(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        endless = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        await asyncio.sleep(5)
        leader, grant = leader_of(cluster), cluster.coordination.tree().get(keys.EPOCH)
        for _ in range(5):
            cluster.freeze(leader)
            await asyncio.sleep(SESSION_TIMEOUT / 2)
            cluster.thaw(leader)
            await asyncio.sleep(5)
        assert cluster.leader() == leader
        assert cluster.coordination.tree().get(keys.EPOCH) == grant, "nobody was elected meanwhile"
        await cluster.cancel(endless)
        assert await cluster.wait_for_end(endless) is JobStatus.CANCELED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 1


@pytest.mark.parametrize("seconds", [40.0, FOREVER], ids=["finished meanwhile", "endless"])
def test_work_that_was_frozen_for_longer_than_its_lease_does_not_count(
    tmp_path: Path, seconds: float
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        streaming = seconds == FOREVER
        graph = job(cluster, seconds=seconds, streaming=streaming, restart=MANY_RESTARTS)
        job_id = await cluster.submit(graph)
        await asyncio.sleep(MORE_THAN_HALF)
        (first,) = cluster.history.attempts
        cluster.freeze(first.executor)
        await asyncio.sleep(LONGER_THAN_A_LEASE)
        cluster.thaw(first.executor)
        await asyncio.sleep(2)
        assert first.ended is not None
        if streaming:
            await cluster.cancel(job_id)
        await cluster.wait_for_end(job_id)

    cluster = simulate(tmp_path, scenario)
    first, second = cluster.history.attempts
    assert not first.finished
    assert second.executor != first.executor


def test_attempts_of_an_executor_whose_name_is_reused_wait_for_their_leases(
    tmp_path: Path,
) -> None:
    """The frozen executor may run its attempts until their leases end (design invariant 3)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        # Two of three regions run; the new executor has to run the third one.
        job_id = await cluster.submit(job(cluster, seconds=60, sinks=3, restart=MANY_RESTARTS))
        await asyncio.sleep(3)
        assert len(cluster.history.attempts) == 2
        cluster.freeze("executor-0")
        cluster.start_executor("executor-0-again", resource_id="executor-0")
        await asyncio.sleep(12)
        assert len(cluster.history.attempts) == 3, "the new executor serves the job"
        cluster.thaw("executor-0")
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario, executors=1)


def test_attempts_of_a_restarted_task_executor_are_replaced_at_once(tmp_path: Path) -> None:
    """On the same machine, an address at which no process answers is proof of death."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=60, sinks=3, restart=MANY_RESTARTS))
        await asyncio.sleep(3)
        await cluster.kill("executor-0")
        cluster.start_executor("executor-0-again", resource_id="executor-0")
        await asyncio.sleep(12)
        assert len(cluster.history.attempts) == 4
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario, executors=1)
