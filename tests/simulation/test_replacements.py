"""Jobs are replaced by other versions while leaders die (OPS-01).

Invariants under attack: two versions never run at the same time, and one version is left in the
end. No client dies here, because a replacement does not depend on its client.
"""

import asyncio
from functools import partial
from pathlib import Path

import msgspec
import pytest

from simulation.faults import ProcessKiller, kill_leader
from simulation.scenarios import (
    details_of,
    graph_path,
    job,
    simulate,
    stream,
    wait_until_running,
    with_file,
)
from stoker.core.errors import CannotTakeSavepoint, Conflict, InvalidInput, NotFound
from stoker.core.failpoints import armed
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId
from stoker.core.replacements import (
    Replacement,
    ReplacementKind,
    ReplacementPhase,
    ReplacementRequest,
)
from stoker.core.states import JobStatus
from stoker.dispatcher.replacements.decide import START_SECONDS
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.testing.simulated_cluster import SimulatedCluster

DIRECTORY = "/saved"
TRIGGER = "5" * 32
GOOD = "good"
BAD = "bad"


def version(cluster: SimulatedCluster, kind: str) -> JobGraph:
    """A version that runs, or one that keeps failing after a few seconds."""
    return stream(cluster) if kind == GOOD else stream(cluster, fails=1000, seconds=4)


def upgrade(old: JobId, graph: JobGraph, trigger_id: str = TRIGGER) -> ReplacementRequest:
    return ReplacementRequest(
        job_id=old,
        trigger_id=trigger_id,
        kind=ReplacementKind.UPGRADE,
        graph=graph,
        directory=DIRECTORY,
        window_seconds=20,
    )


async def trigger_replacement(cluster: SimulatedCluster, request: ReplacementRequest) -> None:
    await cluster.ask(lambda d: d.trigger_replacement(request))


async def wait_for_phase(
    cluster: SimulatedCluster,
    old: JobId,
    wanted: ReplacementPhase | None,
    trigger_id: str = TRIGGER,
) -> Replacement:
    """Wait for a phase, or, without one, for the end of the replacement."""
    phase: ReplacementPhase | None = None
    async with asyncio.timeout(900):
        while True:
            ask = partial(_status, old, trigger_id, phase)
            status = await cluster.ask(ask)
            phase = status.phase
            if phase is wanted or phase.over:
                return status


async def _status(
    old: JobId, trigger_id: str, known: ReplacementPhase | None, dispatcher: DispatcherGateway
) -> Replacement:
    return await dispatcher.replacement_status(old, trigger_id, known, 5)


async def wait_until_over(
    cluster: SimulatedCluster, old: JobId, trigger_id: str = TRIGGER
) -> Replacement:
    return await wait_for_phase(cluster, old, None, trigger_id)


async def live_jobs(cluster: SimulatedCluster) -> list[JobId]:
    jobs = await cluster.jobs()
    return [each.job_id for each in jobs if not each.status.globally_terminal]


async def cancel_and_wait(cluster: SimulatedCluster, job_id: JobId) -> None:
    await cluster.cancel(job_id)
    assert await cluster.wait_for_end(job_id) is JobStatus.CANCELED


def test_a_good_version_replaces_the_old_one(tmp_path: Path) -> None:
    """A repeated request is the same operation, another one is a conflict (DISP-28)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, old)
        new, path = with_file(cluster, version(cluster, GOOD))
        await trigger_replacement(cluster, upgrade(old, new))
        await trigger_replacement(cluster, upgrade(old, new))
        with pytest.raises(Conflict, match="used for another replacement"):
            await trigger_replacement(cluster, upgrade(old, version(cluster, GOOD)))
        with pytest.raises(Conflict, match="is already being replaced"):
            await trigger_replacement(cluster, upgrade(old, new, "7" * 32))
        assert path in cluster.storage.files
        with pytest.raises(Conflict, match="is already being replaced"):
            await trigger_replacement(cluster, upgrade(old, version(cluster, GOOD), "6" * 32))
        over = await wait_until_over(cluster, old)
        assert (over.phase, over.running_id) == (ReplacementPhase.DONE, new.job_id)
        details = await details_of(cluster, new.job_id)
        assert details.checkpoints.restored is not None
        assert details.checkpoints.restored.path == over.savepoint
        assert await live_jobs(cluster) == [new.job_id]
        await trigger_replacement(cluster, upgrade(old, new))
        assert await wait_until_over(cluster, old) == over
        await cancel_and_wait(cluster, new.job_id)

    simulate(tmp_path, scenario)


def test_a_bad_version_is_cancelled_and_the_old_one_is_restored(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, old)
        new = version(cluster, BAD)
        await trigger_replacement(cluster, upgrade(old, new))
        over = await wait_until_over(cluster, old)
        assert (over.phase, over.running_id) == (ReplacementPhase.ROLLED_BACK, over.back_id)
        assert "FakeFailure" in over.reason
        assert await cluster.wait_for_end(new.job_id) is JobStatus.CANCELED
        await wait_until_running(cluster, over.back_id)
        assert await live_jobs(cluster) == [over.back_id]
        await cancel_and_wait(cluster, over.back_id)

    simulate(tmp_path, scenario)


def test_a_failed_stop_leaves_the_old_version_running(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, old)
        cluster.saved.go_away()
        await trigger_replacement(cluster, upgrade(old, version(cluster, GOOD)))
        over = await wait_until_over(cluster, old)
        assert (over.phase, over.running_id) == (ReplacementPhase.FAILED, old)
        assert "the job continues unchanged" in over.reason
        cluster.saved.come_back()
        assert await live_jobs(cluster) == [old]
        again = version(cluster, GOOD)
        await trigger_replacement(cluster, upgrade(old, again, "7" * 32))
        over = await wait_until_over(cluster, old, "7" * 32)
        assert over.phase is ReplacementPhase.DONE
        await cancel_and_wait(cluster, again.job_id)

    simulate(tmp_path, scenario)


def test_the_old_version_is_not_restored_when_a_user_cancels_the_new_one(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, old)
        new = version(cluster, GOOD)
        await trigger_replacement(cluster, upgrade(old, new))
        await wait_for_phase(cluster, old, ReplacementPhase.WATCHING)
        await wait_until_running(cluster, new.job_id)
        await cancel_and_wait(cluster, new.job_id)
        over = await wait_until_over(cluster, old)
        assert over.phase is ReplacementPhase.DONE
        assert "cancelled" in over.reason
        assert await live_jobs(cluster) == []

    simulate(tmp_path, scenario)


def test_a_new_version_that_was_in_quarantine_is_not_cancelled_for_not_running(
    tmp_path: Path,
) -> None:
    """It gets its whole trial window when it can be loaded again (RUN-12)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, old)
        new = version(cluster, GOOD)
        await trigger_replacement(cluster, upgrade(old, new))
        await wait_for_phase(cluster, old, ReplacementPhase.WATCHING)
        await wait_until_running(cluster, new.job_id)
        path = graph_path(cluster, new.job_id)
        sound, cluster.storage.files[path] = cluster.storage.files[path], b""
        await kill_leader(cluster)
        await asyncio.sleep(2 * START_SECONDS)
        cluster.storage.files[path] = sound
        over = await wait_until_over(cluster, old)
        assert (over.phase, over.running_id) == (ReplacementPhase.DONE, new.job_id)
        await cancel_and_wait(cluster, new.job_id)

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 4


def test_an_impossible_replacement_is_refused_before_anything_stops(tmp_path: Path) -> None:
    """The files of its new version are deleted."""

    async def scenario(cluster: SimulatedCluster) -> None:
        batch = await cluster.submit(job(cluster, seconds=5))
        with pytest.raises(CannotTakeSavepoint, match="batch job"):
            await trigger_replacement(cluster, upgrade(batch, version(cluster, GOOD)))
        old = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, old)
        refused, path = with_file(cluster, job(cluster))
        with pytest.raises(InvalidInput, match="is a batch job"):
            await trigger_replacement(cluster, upgrade(old, refused))
        assert path not in cluster.storage.files
        without_partitions = msgspec.structs.replace(rescale(old), partitions=None)
        with pytest.raises(InvalidInput, match="partitions must be"):
            await trigger_replacement(cluster, without_partitions)
        without_directory = msgspec.structs.replace(
            upgrade(old, version(cluster, GOOD)), directory=None
        )
        with pytest.raises(InvalidInput, match="no directory is named"):
            await trigger_replacement(cluster, without_directory)
        with pytest.raises(NotFound, match="no replacement"):
            await cluster.ask(lambda d: d.replacement_status(old, TRIGGER, None, 0))
        assert await cluster.status(old) is JobStatus.RUNNING
        assert await cluster.wait_for_end(batch) is JobStatus.FINISHED
        await cancel_and_wait(cluster, old)

    simulate(tmp_path, scenario)


def test_a_rescale_that_cannot_repartition_the_state_restores_the_job(tmp_path: Path) -> None:
    """Simulated masters have no Spark to repartition the state with."""

    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, old)
        await trigger_replacement(cluster, rescale(old))
        over = await wait_until_over(cluster, old)
        assert over.phase is ReplacementPhase.ROLLED_BACK
        assert "no Spark to repartition" in over.reason
        await wait_until_running(cluster, over.back_id)
        await cancel_and_wait(cluster, over.back_id)

    simulate(tmp_path, scenario)


def rescale(old: JobId) -> ReplacementRequest:
    return ReplacementRequest(
        job_id=old,
        trigger_id=TRIGGER,
        kind=ReplacementKind.RESCALE,
        partitions=4,
        directory=DIRECTORY,
        window_seconds=0,
    )


ONCE = (
    "replacements.before-content",
    "replacements.before-record",
    "replacements.after-record",
    "replacements.before-stop",
    "savepoints.after-record",
    "savepoint.after-manifest",
    "stop.before-record",
    "stop.after-record",
)
HITS = {
    GOOD: {
        **dict.fromkeys(ONCE, 1),
        "replacements.before-phase": 3,
        "replacements.after-phase": 3,
        "replacements.before-submission": 1,
        "replacements.after-submission": 1,
    },
    BAD: {
        **dict.fromkeys(ONCE, 1),
        "replacements.before-phase": 5,
        "replacements.after-phase": 5,
        "replacements.before-submission": 2,
        "replacements.after-submission": 2,
        "replacements.before-cancel": 1,
    },
}
"""How often an upgrade reaches each failpoint; the next test covers the division of a rescale."""
DEATHS = [
    (kind, name, hit)
    for kind, places in HITS.items()
    for name, hits in places.items()
    for hit in range(1, hits + 1)
]


@pytest.mark.parametrize(("kind", "name", "hit"), DEATHS)
def test_the_next_leader_continues_a_replacement_from_every_failpoint(
    tmp_path: Path, kind: str, name: str, hit: int
) -> None:
    """Each phase is on record before it begins (STORE-09, DISP-27)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, old)
        new = version(cluster, kind)
        killer = ProcessKiller(cluster, hit)
        with armed(name, killer.reached):
            await trigger_replacement(cluster, upgrade(old, new))
            over = await wait_until_over(cluster, old)
        assert killer.dead.value is not None
        assert await cluster.wait_for_end(old) is JobStatus.FINISHED
        expected = ReplacementPhase.DONE if kind == GOOD else ReplacementPhase.ROLLED_BACK
        assert over.phase is expected, over
        await wait_until_running(cluster, over.running_id)
        assert await live_jobs(cluster) == [over.running_id]
        await cancel_and_wait(cluster, over.running_id)

    simulate(tmp_path, scenario, executors=2)


@pytest.mark.parametrize("name", ["replacements.before-division", "replacements.after-division"])
def test_a_repartitioning_that_its_leader_does_not_survive_is_repeated(
    tmp_path: Path, name: str
) -> None:
    """The new version has its new number of partitions (FAULT-11, STORE-09)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        made: list[str] = []

        async def repartition(path: str, partitions: int) -> str:
            saved = path.rpartition("/")[2]
            made.append(f"{saved}-{partitions}-{len(made)}")
            for file, content in list(cluster.saved.files.items()):
                if file.startswith(f"{saved}/"):
                    cluster.saved.files[file.replace(saved, made[-1], 1)] = content
            return f"{DIRECTORY}/{made[-1]}"

        cluster.repartition = repartition
        old = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, old)
        killer = ProcessKiller(cluster)
        with armed(name, killer.reached):
            await trigger_replacement(cluster, rescale(old))
            over = await wait_until_over(cluster, old)
        assert killer.dead.value is not None
        assert over.phase is ReplacementPhase.DONE, over
        assert over.origin == f"{DIRECTORY}/{made[-1]}"
        details = await details_of(cluster, over.new_id)
        assert details.configuration["spark.sql.shuffle.partitions"] == "4"
        assert await live_jobs(cluster) == [over.new_id]
        await cancel_and_wait(cluster, over.new_id)

    simulate(tmp_path, scenario, executors=2)
