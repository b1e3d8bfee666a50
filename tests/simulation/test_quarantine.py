"""Jobs that cannot be loaded are listed, kept, retried and dropped (RUN-12).

Invariants under attack: a job in quarantine harms no other, its bytes are kept until it is dropped,
and a dropped job never runs again.
"""

import asyncio
import errno
from pathlib import Path

import pytest

from simulation.faults import deny_reads, fail_over
from simulation.scenarios import FOREVER, MANY_RESTARTS, dispatcher_of, graph_path, job, simulate
from stoker.core.errors import ConnectionLost, DuplicateJob, JobQuarantined, NotFound
from stoker.core.ids import JobId
from stoker.core.results import JobResult
from stoker.core.states import JobStatus
from stoker.gateways.dispatcher import QuarantinedJob
from stoker.ha import keys
from stoker.ha.coordinator import Put
from stoker.ha.stores.job_results import JobResultStore
from stoker.testing.simulated_cluster import SimulatedCluster

BAD = b"\x00 not a graph"


async def broken_job(cluster: SimulatedCluster, seconds: float = FOREVER) -> tuple[JobId, bytes]:
    """A job in quarantine, and the content that would repair it."""
    bad = await cluster.submit(job(cluster, seconds=seconds, restart=MANY_RESTARTS))
    await asyncio.sleep(2)
    path = graph_path(cluster, bad)
    kept = cluster.storage.files[path]
    cluster.storage.files[path] = BAD
    await fail_over(cluster)
    return bad, kept


async def quarantined(cluster: SimulatedCluster) -> list[QuarantinedJob]:
    return await cluster.ask(lambda dispatcher: dispatcher.quarantined())


async def result_of(cluster: SimulatedCluster, job_id: JobId) -> JobResult:
    result = await cluster.ask(lambda dispatcher: dispatcher.job_result(job_id))
    assert result is not None
    return result


def test_a_job_that_cannot_be_loaded_is_listed_with_the_reason(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        good = await cluster.submit(job(cluster, seconds=30))
        bad, _ = await broken_job(cluster)
        [shown] = await quarantined(cluster)
        assert (shown.job_id, shown.pointer) == (bad, graph_path(cluster, bad))
        assert "cannot be understood" in shown.reason
        assert shown.since <= cluster.wall_clock()
        assert await cluster.wait_for_end(good) is JobStatus.FINISHED
        for query in ("job_status", "job_details", "job_result"):
            with pytest.raises(JobQuarantined, match=f"stoker quarantine drop {bad}") as raised:
                await cluster.ask(lambda dispatcher, ask=query: getattr(dispatcher, ask)(bad))
            assert raised.value.status == 409
        with pytest.raises(JobQuarantined):
            await cluster.ask(lambda d: d.wait_for_change(bad, (JobStatus.RUNNING,), 60))
        await cluster.ask(lambda dispatcher: dispatcher.drop_quarantined(bad))

    simulate(tmp_path, scenario)


def test_a_retry_starts_the_job_or_names_the_reason(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        bad, kept = await broken_job(cluster, seconds=120)
        await asyncio.sleep(100)
        path = graph_path(cluster, bad)
        with pytest.raises(JobQuarantined, match="cannot be understood"):
            await cluster.ask(lambda dispatcher: dispatcher.retry_quarantined(bad))
        cluster.storage.files[path] = kept
        await cluster.ask(lambda dispatcher: dispatcher.retry_quarantined(bad))
        assert await quarantined(cluster) == []
        assert not (await cluster.status(bad)).globally_terminal
        await cluster.ask(lambda dispatcher: dispatcher.retry_quarantined(bad))
        assert await cluster.wait_for_end(bad) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_the_reason_shown_is_that_of_the_last_retry(tmp_path: Path) -> None:
    """The last retry fails because permission to read the file is denied."""

    async def scenario(cluster: SimulatedCluster) -> None:
        bad, kept = await broken_job(cluster, seconds=30)
        cluster.storage.files[graph_path(cluster, bad)] = kept
        cluster.storage.fail_next("read", errno.EACCES)
        with pytest.raises(JobQuarantined, match="Permission denied"):
            await cluster.ask(lambda dispatcher: dispatcher.retry_quarantined(bad))
        assert "Permission denied" in (await quarantined(cluster))[0].reason
        await asyncio.sleep(31)
        assert await cluster.wait_for_end(bad) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_a_dropped_job_is_failed_and_cleaned_up_and_never_runs_again(tmp_path: Path) -> None:
    """The result of a dropped job is recorded before the clean-up (CLEAN-01, CLEAN-13)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        bad, _ = await broken_job(cluster)
        attempts = len(cluster.history.attempts)
        assert cluster.storage.files[graph_path(cluster, bad)] == BAD, "kept until it is dropped"
        for _ in range(2):
            await cluster.ask(lambda dispatcher: dispatcher.drop_quarantined(bad))
        assert await cluster.wait_for_end(bad) is JobStatus.FAILED
        result = await result_of(cluster, bad)
        assert result.failure is not None
        assert result.failure.message.startswith("dropped from quarantine: ")
        assert result.name == "simulated"
        await asyncio.sleep(60)
        assert keys.job(bad) not in cluster.coordination.all_keys()
        left = [path for path in cluster.storage.files if path.startswith(f"jobs/{bad}")]
        # The attempt whose lease ran out after the clean-up left an outcome; the sweep removes it.
        assert all(path.startswith(f"jobs/{bad}/outcomes/") for path in left)
        await fail_over(cluster)
        assert await cluster.status(bad) is JobStatus.FAILED
        assert await quarantined(cluster) == []
        other = job(cluster)
        with pytest.raises(DuplicateJob):
            await cluster.ask(
                lambda d: d.submit_job(type(other)(job_id=bad, name="b", vertices=other.vertices))
            )
        assert len(cluster.history.attempts) == attempts

    simulate(tmp_path, scenario)


def test_a_drop_whose_outcome_is_unknown_never_lets_the_job_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = JobResultStore.create_dirty
    is_lost = False

    async def create_and_lose_the_answer(self: JobResultStore, *args: object) -> None:
        nonlocal is_lost
        await create(self, *args)  # type: ignore[arg-type]
        if not is_lost:
            is_lost = True
            raise ConnectionLost("the answer was lost")

    async def scenario(cluster: SimulatedCluster) -> None:
        bad, kept = await broken_job(cluster)
        attempts = len(cluster.history.attempts)
        monkeypatch.setattr(JobResultStore, "create_dirty", create_and_lose_the_answer)
        dispatcher = await dispatcher_of(cluster)
        with pytest.raises(ConnectionLost):
            await dispatcher.drop_quarantined(bad)
        cluster.storage.files[graph_path(cluster, bad)] = kept
        await asyncio.sleep(31)
        assert await cluster.wait_for_end(bad) is JobStatus.FAILED
        assert len(cluster.history.attempts) == attempts

    simulate(tmp_path, scenario)


def test_a_cancellation_in_quarantine_is_durable_and_takes_effect_when_the_job_loads(
    tmp_path: Path,
) -> None:
    """An acknowledged cancellation survives a fail-over (FAULT-05, design invariant 5)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        bad, kept = await broken_job(cluster)
        await cluster.ask(lambda dispatcher: dispatcher.cancel_job(bad))
        await cluster.ask(lambda dispatcher: dispatcher.cancel_job(bad))
        assert (await quarantined(cluster))[0].cancel_wanted
        await fail_over(cluster)
        assert (await quarantined(cluster))[0].cancel_wanted
        with pytest.raises(JobQuarantined, match="its cancellation is recorded"):
            await cluster.status(bad)
        cluster.storage.files[graph_path(cluster, bad)] = kept
        await cluster.ask(lambda dispatcher: dispatcher.retry_quarantined(bad))
        assert await cluster.wait_for_end(bad) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


def test_a_job_with_a_damaged_record_can_be_dropped(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        bad = await cluster.submit(job(cluster, seconds=FOREVER))
        await asyncio.sleep(2)
        session = cluster.coordination.session()
        found = await session.read(keys.job(bad))
        assert found is not None
        await session.commit([Put(keys.job(bad), BAD, found.version)])
        await session.close()
        await fail_over(cluster)
        [shown] = await quarantined(cluster)
        assert shown.pointer is None
        await cluster.ask(lambda dispatcher: dispatcher.drop_quarantined(bad))
        assert await cluster.wait_for_end(bad) is JobStatus.FAILED
        await asyncio.sleep(60)
        assert keys.job(bad) not in cluster.coordination.all_keys()

    simulate(tmp_path, scenario)


def test_only_a_job_in_quarantine_can_be_retried_or_dropped(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        done = await cluster.submit(job(cluster))
        await cluster.wait_for_end(done)
        for job_id in (done, cluster.ids.job()):
            for call in ("retry_quarantined", "drop_quarantined"):
                with pytest.raises(NotFound, match="stoker quarantine list"):
                    await cluster.ask(lambda d, call=call, id=job_id: getattr(d, call)(id))
        assert await cluster.status(done) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_the_only_job_goes_to_quarantine_when_its_file_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file that may not be read must not keep a leader from serving."""
    denied = deny_reads(monkeypatch)

    async def scenario(cluster: SimulatedCluster) -> None:
        bad = await cluster.submit(job(cluster, seconds=90))
        await asyncio.sleep(2)
        denied.add(graph_path(cluster, bad))
        await fail_over(cluster)
        await asyncio.sleep(30)
        assert "Permission denied" in (await quarantined(cluster))[0].reason
        other = await cluster.submit(job(cluster))
        assert await cluster.wait_for_end(other) is JobStatus.FINISHED
        denied.clear()
        await cluster.ask(lambda dispatcher: dispatcher.retry_quarantined(bad))
        assert await cluster.wait_for_end(bad) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_orphaned_files_are_swept_in_a_running_cluster(tmp_path: Path) -> None:
    """Files of known jobs stay (STORE-10, CLEAN-03)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        running = await cluster.submit(job(cluster, seconds=FOREVER))
        done = await cluster.submit(job(cluster))
        await cluster.wait_for_end(done)
        await asyncio.sleep(5)
        wanted = set(cluster.storage.files)
        crashed = cluster.ids.job()
        young, *old = [
            f"blobs/{crashed}/young",
            f"blobs/{crashed}/old",
            f"jobs/{crashed}/graph/old.json",
            f"jobs/{done}/outcomes/late/old.json",
        ]
        for path in (young, *old):
            await cluster.storage.write(path, b"")
        for path in {*old, *wanted}:
            cluster.storage.times[path] -= 2 * 24 * 3600
        await asyncio.sleep(3700)
        assert set(cluster.storage.files) == {*wanted, young}
        await cluster.cancel(running)
        assert await cluster.wait_for_end(running) is JobStatus.CANCELED

    simulate(tmp_path, scenario, masters=1, executors=1)
