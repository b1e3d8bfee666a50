"""The dispatcher in a whole cluster: refusal, recovery, quarantine and clean-up.

Invariants under attack: an acknowledged job is durable, an unreadable store is never taken for an
empty one, and a broken job harms no other job.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simulation.faults import fail_over
from simulation.scenarios import (
    FOREVER,
    MANY_RESTARTS,
    details_of,
    dispatcher_of,
    graph_path,
    job,
    simulate,
    stream,
    wait_until_running,
    with_file,
)
from simulation.test_replacements import (
    cancel_and_wait,
    trigger_replacement,
    upgrade,
    wait_until_over,
)
from stoker.core.errors import (
    DuplicateJob,
    InvalidInput,
    JobAlreadyEnded,
    JobNotFound,
    JobQuarantined,
    StorageUnavailable,
)
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import RegionId
from stoker.core.results import AttemptOutcome
from stoker.core.states import JobStatus
from stoker.ha import keys
from stoker.ha.coordinator import Create, Put
from stoker.ha.record import decode_record
from stoker.ha.stores.attempts import AttemptRecord
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.jobmaster import resource_manager_link
from stoker.testing.simulated_cluster import SimulatedCluster


def pauses_between(moments: Sequence[float]) -> list[int]:
    """Whole seconds of virtual time between each moment and the next."""
    return [round(later - former) for former, later in itertools.pairwise(moments)]


def test_a_submission_without_storage_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Nothing is acknowledged before it is durable (DISP-01)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster)
        dispatcher = await dispatcher_of(cluster)
        cluster.storage.go_away()
        with pytest.raises(StorageUnavailable):
            await dispatcher.submit_job(graph)
        cluster.storage.come_back()
        assert keys.job(graph.job_id) not in cluster.coordination.all_keys()
        assert [path for path in cluster.storage.files if graph.job_id in path] == []
        assert not (await dispatcher.submit_job(graph)).repeated
        assert await cluster.wait_for_end(graph.job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


@pytest.mark.parametrize("failing", ["exists", None])
def test_a_job_with_missing_files_is_refused_and_can_be_submitted_again(
    tmp_path: Path, failing: str | None
) -> None:
    """This also holds if the storage fails while the files are checked (CLEAN-03)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph, path = with_file(cluster, job(cluster))
        content = cluster.storage.files.pop(path)
        dispatcher = await dispatcher_of(cluster)
        if failing:
            cluster.storage.fail_next(failing)
        with pytest.raises(StorageUnavailable if failing else InvalidInput):
            await dispatcher.submit_job(graph)
        assert keys.job(graph.job_id) not in cluster.coordination.all_keys()
        cluster.storage.files[path] = content
        with pytest.raises(JobNotFound):
            await dispatcher.job_status(graph.job_id)
        assert not (await dispatcher.submit_job(graph)).repeated
        assert await cluster.wait_for_end(graph.job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def refused_by_its_queue(cluster: SimulatedCluster) -> JobGraph:
    return msgspec.structs.replace(job(cluster), queue="no-such-queue")


def refused_for_its_savepoint(cluster: SimulatedCluster) -> JobGraph:
    return msgspec.structs.replace(stream(cluster), restore=Restore(path="/saved/none"))


def refused_for_its_vertices(cluster: SimulatedCluster) -> JobGraph:
    return msgspec.structs.replace(job(cluster), vertices=())


@pytest.mark.parametrize(
    "refused", [refused_by_its_queue, refused_for_its_savepoint, refused_for_its_vertices]
)
def test_a_refused_submission_leaves_no_files_behind(
    tmp_path: Path, refused: Callable[[SimulatedCluster], JobGraph]
) -> None:
    """Whatever the reason, its files are deleted at once (DISP-01)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph, path = with_file(cluster, refused(cluster))
        with pytest.raises(InvalidInput):
            await cluster.submit(graph)
        assert path not in cluster.storage.files

    simulate(tmp_path, scenario)


def test_a_refused_or_repeated_submission_spares_the_files_of_other_jobs(tmp_path: Path) -> None:
    """The second graph has the id of the first, the third its idempotency key (DISP-02)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        first, path = with_file(cluster, job(cluster))
        first = msgspec.structs.replace(first, idempotency_key="once")
        await cluster.submit(first)
        with pytest.raises(DuplicateJob):
            await cluster.submit(msgspec.structs.replace(first, name="other"))
        with pytest.raises(InvalidInput):
            await cluster.submit(msgspec.structs.replace(first, vertices=()))
        assert path in cluster.storage.files
        again = msgspec.structs.replace(first, job_id=cluster.ids.job())
        again, second_path = with_file(cluster, again)
        assert await cluster.submit(again) == first.job_id
        assert path in cluster.storage.files
        assert second_path not in cluster.storage.files
        assert await cluster.wait_for_end(first.job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_the_same_id_with_another_graph_is_a_conflict_before_and_after_the_end(
    tmp_path: Path,
) -> None:
    """The end of a job does not free its id (DISP-02)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=5)
        await cluster.submit(graph)
        other = msgspec.structs.replace(job(cluster), job_id=graph.job_id)
        for ended in (False, True):
            with pytest.raises(DuplicateJob) as caught:
                await cluster.ask(lambda dispatcher: dispatcher.submit_job(other))
            assert caught.value.facts["globally_terminated"] is ended
            await cluster.wait_for_end(graph.job_id)

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 1


def test_cancelling_an_ended_or_unknown_job_is_an_error(tmp_path: Path) -> None:
    """The error says whether the job has ended or is unknown (DISP-08, DISP-19)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster))
        await cluster.wait_for_end(job_id)
        with pytest.raises(JobAlreadyEnded, match="FINISHED"):
            await cluster.ask(lambda dispatcher: dispatcher.cancel_job(job_id))
        with pytest.raises(JobNotFound):
            await cluster.ask(lambda dispatcher: dispatcher.cancel_job(cluster.ids.job()))
        with pytest.raises(JobNotFound):
            await cluster.ask(lambda dispatcher: dispatcher.job_result(cluster.ids.job()))

    simulate(tmp_path, scenario)


def test_a_new_leader_waits_for_an_unavailable_storage_instead_of_taking_it_for_empty(
    tmp_path: Path,
) -> None:
    """Recovery is repeated until the storage is back (RUN-12, FAULT-04)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=20))
        await asyncio.sleep(2)
        cluster.storage.go_away()
        await fail_over(cluster)
        await asyncio.sleep(20)
        cluster.storage.come_back()
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 1


def test_an_unreadable_graph_harms_no_other_job_and_runs_once_it_is_readable(
    tmp_path: Path,
) -> None:
    """The job waits in quarantine, with its record (RUN-12, design invariant 7)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        bad = await cluster.submit(job(cluster, seconds=60, restart=MANY_RESTARTS))
        good = await cluster.submit(job(cluster, seconds=60))
        await asyncio.sleep(2)
        path = graph_path(cluster, bad)
        kept = cluster.storage.files[path]
        cluster.storage.files[path] = b"\x00 not a graph"
        await fail_over(cluster)
        assert await cluster.wait_for_end(good) is JobStatus.FINISHED
        assert keys.job(bad) in cluster.coordination.all_keys(), "its record is kept"
        cluster.storage.files[path] = kept
        await asyncio.sleep(31)
        assert await cluster.wait_for_end(bad) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_a_graph_that_is_unreadable_for_a_moment_is_read_again(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        jobs = [await cluster.submit(job(cluster, seconds=30)) for _ in range(3)]
        await asyncio.sleep(2)
        cluster.storage.fail_next("read")
        await fail_over(cluster)
        await asyncio.sleep(31)
        for each in jobs:
            assert await cluster.wait_for_end(each) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_a_damaged_cancellation_record_still_cancels_the_job_and_stops_no_leader(
    tmp_path: Path,
) -> None:
    """That the record exists is enough; its content is not needed (FAULT-05)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        other = await cluster.submit(job(cluster, seconds=10))
        cancelled = await cluster.submit(job(cluster, seconds=FOREVER))
        await asyncio.sleep(2)
        session = cluster.coordination.session()
        await session.commit([Create(keys.cancellation(cancelled), b"\x00")])
        await session.close()
        await fail_over(cluster)
        assert await cluster.wait_for_end(cancelled) is JobStatus.CANCELED
        assert await cluster.wait_for_end(other) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_a_job_whose_records_are_damaged_harms_no_other(tmp_path: Path) -> None:
    """The damaged job goes to quarantine, and the others continue (DISP-10)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        bad = await cluster.submit(job(cluster, seconds=30))
        await asyncio.sleep(2)
        session = cluster.coordination.session()
        key = keys.attempt(bad, job(cluster).vertices[1].name)
        found = await session.read(key)
        assert found is not None
        await session.commit([Put(key, b"\x00", found.version)])
        await fail_over(cluster)
        good = await cluster.submit(job(cluster))
        assert await cluster.wait_for_end(good) is JobStatus.FINISHED
        [quarantined_job] = await cluster.ask(lambda dispatcher: dispatcher.quarantined())
        assert quarantined_job.job_id == bad
        assert key in quarantined_job.reason
        with pytest.raises(JobQuarantined):
            await cluster.ask(lambda dispatcher: dispatcher.retry_quarantined(bad))
        damaged = await session.read(key)
        assert damaged is not None
        await session.commit([Put(key, found.value, damaged.version)])
        await session.close()
        await cluster.ask(lambda dispatcher: dispatcher.retry_quarantined(bad))
        assert await cluster.wait_for_end(bad) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 2


def test_a_job_with_damaged_records_is_retried_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outcome that cannot be read is found only by the job master (DISP-10)."""
    reads: list[float] = []
    read = OutcomeStore.read

    async def record_read(self: OutcomeStore, *which: Any) -> AttemptOutcome | None:
        reads.append(asyncio.get_running_loop().time())
        return await read(self, *which)

    async def scenario(cluster: SimulatedCluster) -> None:
        bad = await cluster.submit(job(cluster, seconds=FOREVER))
        await asyncio.sleep(2)
        session = cluster.coordination.session()
        record = await session.read(keys.attempt(bad, RegionId("sink-0")))
        await session.close()
        assert record is not None
        attempt = decode_record(record.value, AttemptRecord, "attempt").attempt
        path = keys.outcome(bad, RegionId("sink-0"), attempt)
        cluster.storage.files[path] = b"\x00"
        monkeypatch.setattr(OutcomeStore, "read", record_read)
        await fail_over(cluster)
        await asyncio.sleep(600)
        assert pauses_between(reads) == [1, 2, 4, 8, 16, *[30] * (len(reads) - 6)]
        await cluster.ask(lambda dispatcher: dispatcher.drop_quarantined(bad))
        assert await cluster.wait_for_end(bad) is JobStatus.FAILED

    simulate(tmp_path, scenario)


def test_a_job_master_that_keeps_failing_is_restarted_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause before each restart doubles, up to a minute (JMR-12, DISP-11)."""
    starts: list[float] = []

    async def fail_always(live: object, *rest: object) -> None:
        starts.append(asyncio.get_running_loop().time())
        raise ZeroDivisionError("a bug in Stoker")

    monkeypatch.setattr(resource_manager_link, "_stay_registered", fail_always)

    async def scenario(cluster: SimulatedCluster) -> None:
        bad = await cluster.submit(job(cluster))
        await asyncio.sleep(600)
        assert pauses_between(starts) == [1, 2, 4, 8, 16, 32, *[60] * (len(starts) - 7)]
        assert not (await cluster.status(bad)).globally_terminal
        monkeypatch.undo()
        assert await cluster.wait_for_end(bad) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_a_job_master_that_fails_on_a_bug_harms_only_its_own_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader keeps leading and restarts that one job master (DISP-11, design invariant 7)."""
    broken: set[str] = set()
    serve = resource_manager_link._stay_registered

    async def fail_once(live: object, *rest: object) -> None:
        job_id = live.job_id  # type: ignore[attr-defined]
        if not broken:
            broken.add(job_id)
            raise ZeroDivisionError("a bug in Stoker")
        await serve(live, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(resource_manager_link, "_stay_registered", fail_once)

    async def scenario(cluster: SimulatedCluster) -> None:
        jobs = [await cluster.submit(job(cluster)) for _ in range(2)]
        for each in jobs:
            assert await cluster.wait_for_end(each) is JobStatus.FINISHED
        assert cluster.ended_by_themselves() == []

    simulate(tmp_path, scenario)
    assert len(broken) == 1


def test_clean_up_is_retried_until_it_succeeds_and_cannot_be_cancelled(tmp_path: Path) -> None:
    """The recorded end of the job stands during the retries (CLEAN-01, CLEAN-11, CLEAN-14)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        for _ in range(3):
            cluster.storage.fail_next("delete_tree")
        job_id = await cluster.submit(job(cluster))
        await cluster.wait_for_end(job_id)
        with pytest.raises(JobAlreadyEnded):
            await cluster.ask(lambda dispatcher: dispatcher.cancel_job(job_id))
        await asyncio.sleep(10)
        assert [path for path in cluster.storage.files if path.startswith(f"jobs/{job_id}")] == []

    simulate(tmp_path, scenario)


def test_an_unfinished_clean_up_is_finished_by_the_next_leader(tmp_path: Path) -> None:
    """The dirty result tells the next leader what is left to do (CLEAN-13, RUN-08, DISP-13)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=3))
        await asyncio.sleep(1)
        for _ in range(50):
            cluster.storage.fail_next("delete_tree")
        await cluster.wait_for_end(job_id)
        await fail_over(cluster)
        cluster.storage._failing.clear()
        await asyncio.sleep(100)
        assert [path for path in cluster.storage.files if path.startswith(f"jobs/{job_id}")] == []
        assert await cluster.status(job_id) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 1


def test_a_client_that_waits_for_a_job_without_a_master_does_not_spin(tmp_path: Path) -> None:
    """The job is cancelled before it has a master; the client awaits its end (DISP-05, DISP-07)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=FOREVER))
        await cluster.cancel(job_id)
        status = await cluster.ask(
            lambda dispatcher: dispatcher.wait_for_change(job_id, (JobStatus.CANCELLING,), 30)
        )
        assert status is JobStatus.CANCELED
        await cluster.wait_for_end(job_id)

    simulate(tmp_path, scenario)


def test_a_job_keeps_its_owner_through_fail_overs_quarantine_and_its_end(tmp_path: Path) -> None:
    """It is shown in every list, and its successors after an upgrade have the same owner."""

    async def owners(cluster: SimulatedCluster) -> dict[str, str]:
        return {job.job_id: job.owner for job in await cluster.jobs()}

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = stream(cluster)
        await cluster.ask(lambda d: d.submit_job(graph, "ana"))
        ended = job(cluster)
        await cluster.ask(lambda d: d.submit_job(ended, "bob"))
        assert await cluster.wait_for_end(ended.job_id) is JobStatus.FINISHED
        await wait_until_running(cluster, graph.job_id)
        assert (await details_of(cluster, graph.job_id)).owner == "ana"
        path = graph_path(cluster, graph.job_id)
        sound, cluster.storage.files[path] = cluster.storage.files[path], b""
        await fail_over(cluster)
        [quarantined] = await cluster.ask(lambda d: d.quarantined())
        assert quarantined.owner == "ana"
        assert await cluster.ask(lambda d: d.job_owner(graph.job_id)) == "ana"
        cluster.storage.files[path] = sound
        await cluster.ask(lambda d: d.retry_quarantined(graph.job_id))
        await wait_until_running(cluster, graph.job_id)
        new = stream(cluster)
        await trigger_replacement(cluster, upgrade(graph.job_id, new))
        await wait_until_over(cluster, graph.job_id)
        expected = {graph.job_id: "ana", ended.job_id: "bob", new.job_id: "ana"}
        assert await owners(cluster) == expected
        await cancel_and_wait(cluster, new.job_id)
        await fail_over(cluster)
        assert await owners(cluster) == expected
        assert (await details_of(cluster, new.job_id)).owner == "ana"
        assert await cluster.ask(lambda d: d.job_owner(new.job_id)) == "ana"

    simulate(tmp_path, scenario)
