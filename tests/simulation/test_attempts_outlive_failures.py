"""Masters and the coordinator fail while attempts are running.

Invariant under attack (invariant 8): a failure of masters or of the coordinator stops no attempt.
"""

import asyncio
from pathlib import Path

import pytest

from simulation.faults import fail_over, hang_reads
from simulation.scenarios import FOREVER, graph_path, job, simulate
from stoker.core.states import JobStatus
from stoker.jobmaster.savepoints.records import savepoints_record_path
from stoker.testing.simulated_cluster import SimulatedCluster

TEN_MINUTES = 600.0


async def take_coordinator_away(cluster: SimulatedCluster, seconds: float) -> None:
    """Suspend all sessions and end none: an ensemble without a quorum cannot end a session."""
    timeout = cluster.coordination.session_timeout
    cluster.coordination.session_timeout = None
    sessions = [process.session for process in cluster.processes.values()]
    for session in sessions:
        cluster.coordination.suspend(session)
    await asyncio.sleep(seconds)
    for session in sessions:
        cluster.coordination.resume(session)
    cluster.coordination.session_timeout = timeout


def test_running_work_outlives_all_masters(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        stream = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        batch = await cluster.submit(job(cluster, seconds=TEN_MINUTES / 2))
        await asyncio.sleep(5)
        for name in ("master-0", "master-1"):
            await cluster.kill(name)
        await asyncio.sleep(TEN_MINUTES)
        cluster.start_master("master-0")
        assert await cluster.wait_for_end(batch) is JobStatus.FINISHED
        assert await cluster.status(stream) is JobStatus.RUNNING
        await cluster.cancel(stream)
        assert await cluster.wait_for_end(stream) is JobStatus.CANCELED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 2


def test_running_work_outlives_an_outage_of_the_coordinator(tmp_path: Path) -> None:
    """The failsafe: every master confirms that it neither leads nor knows a later epoch."""

    async def scenario(cluster: SimulatedCluster) -> None:
        stream = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        batch = await cluster.submit(job(cluster, seconds=TEN_MINUTES / 2))
        await asyncio.sleep(5)
        await take_coordinator_away(cluster, TEN_MINUTES)
        assert await cluster.wait_for_end(batch) is JobStatus.FINISHED
        await cluster.cancel(stream)
        assert await cluster.wait_for_end(stream) is JobStatus.CANCELED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 2


def test_work_ends_without_the_coordinator_unless_every_master_confirms(
    tmp_path: Path,
) -> None:
    """A master that cannot be reached might lead by the time the lease would be renewed."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        await asyncio.sleep(5)
        cluster.network.partition("master-0", "master-1")
        await take_coordinator_away(cluster, TEN_MINUTES)
        cluster.network.heal()
        await asyncio.sleep(60)
        assert await cluster.status(job_id) is JobStatus.RUNNING
        await cluster.cancel(job_id)
        await cluster.wait_for_end(job_id)

    cluster = simulate(tmp_path, scenario)
    first, second = cluster.history.attempts
    assert first.ended is not None
    assert first.ended < 65
    assert second.began > TEN_MINUTES


@pytest.mark.parametrize("deaths", [10])
def test_a_stream_outlives_any_number_of_leaders(tmp_path: Path, deaths: int) -> None:
    """Each new leader adopts the one attempt of the stream (FAULT-02)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        for _ in range(deaths):
            await asyncio.sleep(20)
            await fail_over(cluster)
        await asyncio.sleep(10)
        assert await cluster.status(job_id) is JobStatus.RUNNING
        await cluster.cancel(job_id)
        assert await cluster.wait_for_end(job_id) is JobStatus.CANCELED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 1


def test_a_batch_job_outlives_the_stop_and_start_of_the_whole_cluster(tmp_path: Path) -> None:
    """The job needs no restart strategy, because a stopped executor is no failure of the job."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=60))
        await asyncio.sleep(5)
        names = sorted(cluster.processes, reverse=True)
        for name in names:
            await cluster.stop(name)
        for name in names:
            if name.startswith("master"):
                cluster.start_master(name)
            else:
                cluster.start_executor(name)
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario)
    assert [span.finished for span in cluster.history.attempts] == [False, True]


def test_attempts_keep_running_while_their_job_is_in_quarantine(tmp_path: Path) -> None:
    """The new leader vouches for the job, because the job has no job master."""

    async def scenario(cluster: SimulatedCluster) -> None:
        stream = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        other = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        await asyncio.sleep(5)
        path = graph_path(cluster, stream)
        kept = cluster.storage.files[path]
        cluster.storage.files[path] = b"\x00"
        await fail_over(cluster)
        await asyncio.sleep(TEN_MINUTES)
        cluster.storage.files[path] = kept
        await cluster.ask(lambda dispatcher: dispatcher.retry_quarantined(stream))
        await asyncio.sleep(120)
        for each in (stream, other):
            assert await cluster.status(each) is JobStatus.RUNNING
            await cluster.cancel(each)
            assert await cluster.wait_for_end(each) is JobStatus.CANCELED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 2


def test_attempts_keep_running_while_a_new_leader_waits_for_the_storage(tmp_path: Path) -> None:
    """Leaders vouch for the attempts of jobs that they cannot read yet (FAULT-04)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        stream = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        await asyncio.sleep(5)
        cluster.storage.go_away()
        for _ in range(3):
            if cluster.leader():
                await fail_over(cluster)
            await asyncio.sleep(TEN_MINUTES / 3)
        cluster.storage.come_back()
        await asyncio.sleep(120)
        assert await cluster.status(stream) is JobStatus.RUNNING
        await cluster.cancel(stream)
        assert await cluster.wait_for_end(stream) is JobStatus.CANCELED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 1


def test_attempts_keep_running_while_the_storage_hangs_at_the_start_of_a_job_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new job master exists, but decides nothing before it has read all records (FAULT-04)."""
    hanging = hang_reads(monkeypatch)

    async def scenario(cluster: SimulatedCluster) -> None:
        stream = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        await asyncio.sleep(5)
        path = savepoints_record_path(stream)
        hanging[path] = asyncio.Event()
        await fail_over(cluster)
        await asyncio.sleep(TEN_MINUTES)
        hanging.pop(path).set()
        await asyncio.sleep(120)
        assert await cluster.status(stream) is JobStatus.RUNNING
        await cluster.cancel(stream)
        assert await cluster.wait_for_end(stream) is JobStatus.CANCELED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 1


def test_no_leader_vouches_for_a_job_that_was_cancelled_in_quarantine(tmp_path: Path) -> None:
    """The attempt ends with its lease, although the job cannot be loaded (design invariant 5)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        stream = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        await asyncio.sleep(5)
        path = graph_path(cluster, stream)
        kept = cluster.storage.files[path]
        cluster.storage.files[path] = b"\x00"
        await fail_over(cluster)
        await asyncio.sleep(120)
        [attempt] = cluster.history.attempts
        assert attempt.ended is None
        await cluster.cancel(stream)
        await asyncio.sleep(120)
        assert attempt.ended is not None
        cluster.storage.files[path] = kept
        await cluster.ask(lambda dispatcher: dispatcher.retry_quarantined(stream))
        assert await cluster.wait_for_end(stream) is JobStatus.CANCELED

    simulate(tmp_path, scenario)
