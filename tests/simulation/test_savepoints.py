"""Savepoints and stops that succeed, that fail, and that outlive the leader that started them.

Invariants under attack: a job whose savepoint fails keeps running, and one trigger id never takes
two savepoints.
"""

import asyncio
import contextlib
import errno
from pathlib import Path

import msgspec
import pytest

from simulation.faults import ProcessKiller, fail_over
from simulation.scenarios import (
    SAVEPOINT_DIRECTORY,
    STOP,
    details_of,
    job,
    simulate,
    stream,
    wait_until_running,
)
from stoker.core.checkpoints import SavepointRequest
from stoker.core.errors import (
    CannotTakeSavepoint,
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    StokerError,
)
from stoker.core.failpoints import armed
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.gateways.dispatcher import CallerRights, SavepointStatus
from stoker.storage.memory import MemoryStorage
from stoker.testing.simulated_cluster import SimulatedCluster
from unit.savepoints.checkpoint_files import JOB, FakeQuery


async def take_savepoint(
    cluster: SimulatedCluster, job_id: JobId, request: SavepointRequest, trigger_id: str = "1" * 32
) -> SavepointStatus:
    await cluster.ask(lambda d: d.trigger_savepoint(job_id, trigger_id, request))
    async with asyncio.timeout(900):
        while True:
            status = await cluster.ask(lambda d: d.savepoint_status(job_id, trigger_id, 5))
            if status.done:
                return status


def test_a_job_that_is_stopped_with_a_savepoint_finishes(tmp_path: Path) -> None:
    """A repeated trigger is the same operation (CKPT-15, OPS-01)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, job_id)
        status = await take_savepoint(cluster, job_id, STOP)
        assert status.taken is not None
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED
        again = await take_savepoint(cluster, job_id, STOP)
        assert again == status
        listed = await cluster.ask(lambda d: d.savepoints(SAVEPOINT_DIRECTORY))
        assert [each.path for each in listed] == [status.taken.path]
        new = msgspec.structs.replace(stream(cluster), restore=Restore(path=status.taken.path))
        second = await cluster.submit(new)
        await wait_until_running(cluster, second)
        details = await details_of(cluster, second)
        assert details.checkpoints.restored is not None
        await cluster.ask(lambda d: d.dispose_savepoint(status.taken.path))
        assert cluster.saved.files == {}
        await cluster.cancel(second)
        assert await cluster.wait_for_end(second) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


def test_a_savepoint_belongs_to_the_owner_of_its_job(tmp_path: Path) -> None:
    """Nobody else starts from it, or removes it, except who may do everything."""

    async def scenario(cluster: SimulatedCluster) -> None:
        ana, bob = (CallerRights(name=name, only_own=True) for name in ("ana", "bob"))
        graph = stream(cluster)
        await cluster.ask(lambda d: d.submit_job(graph, "ana", ana))
        await wait_until_running(cluster, graph.job_id)
        engines = [each.engine for each in cluster.processes.values() if each.engine is not None]
        assert {task.owner for engine in engines for task in engine.tasks} == {"ana"}
        # The next leader knows the owner from the record of the job.
        await fail_over(cluster)
        await wait_until_running(cluster, graph.job_id)
        status = await take_savepoint(cluster, graph.job_id, STOP)
        assert status.taken is not None
        path = status.taken.path
        [listed] = await cluster.ask(lambda d: d.savepoints(SAVEPOINT_DIRECTORY))
        assert listed.owner == "ana"
        again = msgspec.structs.replace(stream(cluster), restore=Restore(path=path))
        for refused in (
            cluster.ask(lambda d: d.submit_job(again, "bob", bob)),
            cluster.ask(lambda d: d.dispose_savepoint(path, bob)),
        ):
            with pytest.raises(Forbidden, match="belongs to ana, and bob may use its own only"):
                await refused
        await cluster.ask(lambda d: d.submit_job(again, "ana", ana))
        await wait_until_running(cluster, again.job_id)
        by_operator = msgspec.structs.replace(again, job_id=cluster.ids.job())
        await cluster.ask(lambda d: d.submit_job(by_operator, "op", CallerRights(name="op")))
        await wait_until_running(cluster, by_operator.job_id)
        await cluster.ask(lambda d: d.dispose_savepoint(path, ana))
        for job_id in (again.job_id, by_operator.job_id):
            await cluster.cancel(job_id)
            assert await cluster.wait_for_end(job_id) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


def test_a_job_without_a_batch_boundary_in_time_keeps_running(tmp_path: Path) -> None:
    """The savepoint fails, but the job does not (CKPT-16)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster, **{"fake.no-boundary": "1"}))
        await wait_until_running(cluster, job_id)
        status = await take_savepoint(cluster, job_id, STOP)
        assert status.taken is None
        assert "no batch boundary" in status.message
        assert "continues" in status.message
        await asyncio.sleep(60)
        details = await details_of(cluster, job_id)
        assert details.status is JobStatus.RUNNING
        assert details.failures == ()
        assert details.checkpoints.counts.failed == 1
        assert cluster.saved.files == {}
        await cluster.cancel(job_id)
        assert await cluster.wait_for_end(job_id) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EIO, "Input/output error"),
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "Read-only file system"),
    ],
)
@pytest.mark.parametrize("stop", [True, False])
def test_a_job_keeps_running_when_its_savepoint_directory_fails(
    tmp_path: Path, code: int, words: str, stop: bool
) -> None:
    """The streams of the job are not left suspended (CKPT-16)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, job_id)
        cluster.saved.go_away(code)
        status = await take_savepoint(cluster, job_id, msgspec.structs.replace(STOP, stop=stop))
        assert status.error == ("StorageFull" if code == errno.ENOSPC else "StorageUnavailable")
        assert words in status.message
        cluster.saved.come_back()
        await asyncio.sleep(5)
        details = await details_of(cluster, job_id)
        assert details.status is JobStatus.RUNNING
        assert details.failures == ()
        assert details.checkpoints.latest_failed is not None
        assert words in details.checkpoints.latest_failed.failure
        assert cluster.saved.files == {}
        assert (await take_savepoint(cluster, job_id, STOP, "2" * 32)).taken is not None
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_one_trigger_id_means_one_operation(tmp_path: Path) -> None:
    """A repeated request returns the first operation (OPS-01)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, job_id)
        request = msgspec.structs.replace(STOP, stop=False)
        first = await take_savepoint(cluster, job_id, request)
        assert await take_savepoint(cluster, job_id, request) == first
        with pytest.raises(Conflict, match="choose another id"):
            await take_savepoint(cluster, job_id, STOP)
        both = msgspec.structs.replace(STOP, cancel=True)
        with pytest.raises(InvalidInput, match="either stopped or cancelled"):
            await take_savepoint(cluster, job_id, both, "2" * 32)
        listed = await cluster.ask(lambda d: d.savepoints(SAVEPOINT_DIRECTORY))
        assert len(listed) == 1
        assert await cluster.ask(lambda d: d.job_status(job_id)) is JobStatus.RUNNING
        await cluster.cancel(job_id)
        assert await cluster.wait_for_end(job_id) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


def test_an_unusable_savepoint_is_refused_at_submission_with_the_reason(tmp_path: Path) -> None:
    """Unusable: of a newer version, truncated, of another job, or not a savepoint at all."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, job_id)
        status = await take_savepoint(cluster, job_id, STOP)
        assert status.taken is not None
        path = status.taken.path
        (manifest,) = [name for name in cluster.saved.files if name.endswith("manifest.json")]
        whole = cluster.saved.files[manifest]

        async def refused(words: str, graph: JobGraph | None = None) -> None:
            graph = msgspec.structs.replace(graph or stream(cluster), restore=Restore(path=path))
            with pytest.raises(InvalidInput, match=words):
                await cluster.submit(graph)
            with pytest.raises(NotFound):
                await cluster.ask(lambda d: d.job_status(graph.job_id))

        cluster.saved.files[manifest] = whole.replace(b'"version": 1', b'"version": 2')
        await refused("has version 2, and this Stoker reads up to 1")
        cluster.saved.files[manifest] = whole[:100]
        await refused("cut off or not a manifest")
        del cluster.saved.files[manifest]
        await refused("never completed, or this is not a savepoint")
        cluster.saved.files[manifest] = whole
        graph = stream(cluster)
        other = [msgspec.structs.replace(v, name=f"{v.name}-x") for v in graph.vertices[1:]]
        await refused(
            "has no sink of that name",
            msgspec.structs.replace(graph, vertices=(graph.vertices[0], *other)),
        )
        await refused("no streaming query", job(cluster, seconds=1))
        good = msgspec.structs.replace(stream(cluster), restore=Restore(path=path))
        second = await cluster.submit(good)
        await wait_until_running(cluster, second)
        await cluster.cancel(second)
        assert await cluster.wait_for_end(second) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


def test_a_job_that_cannot_take_a_savepoint_says_why(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        batch = await cluster.submit(job(cluster, seconds=20))
        with pytest.raises(CannotTakeSavepoint, match="batch job"):
            await take_savepoint(cluster, batch, STOP)
        assert await cluster.wait_for_end(batch) is JobStatus.FINISHED
        with pytest.raises(CannotTakeSavepoint, match="has ended as FINISHED"):
            await take_savepoint(cluster, batch, STOP)
        with pytest.raises(NotFound):
            await cluster.ask(lambda d: d.savepoint_status(batch, "9" * 32, 0))
        failed = await cluster.submit(job(cluster, fails=1))
        assert await cluster.wait_for_end(failed) is JobStatus.FAILED
        with pytest.raises(CannotTakeSavepoint, match=r"FAILED .*: FakeFailure: asked for"):
            await take_savepoint(cluster, failed, STOP)
        missing = msgspec.structs.replace(stream(cluster), restore=Restore(path="/saved/none"))
        with pytest.raises(InvalidInput, match="there is no such directory"):
            await cluster.submit(missing)

    simulate(tmp_path, scenario)


def test_a_savepoint_of_a_job_that_does_not_run_yet_or_without_a_directory_fails_with_the_reason(
    tmp_path: Path,
) -> None:
    """The first message asks to try again, the second one names the option (DISP-06, REST-17)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        early = await take_savepoint(cluster, job_id, STOP)
        assert (early.taken, early.error) == (None, "CannotTakeSavepoint")
        assert "try again" in early.message
        await wait_until_running(cluster, job_id)
        no_directory = SavepointRequest(limit_seconds=20)
        without_directory = await take_savepoint(cluster, job_id, no_directory, "2" * 32)
        assert without_directory.taken is None
        assert "execution.checkpointing.savepoint-dir" in without_directory.message
        assert "--savepoint-path DIR" in without_directory.message
        assert await cluster.status(job_id) is JobStatus.RUNNING
        await cluster.cancel(job_id)
        assert await cluster.wait_for_end(job_id) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "has 0 bytes instead of"), (None, "is missing")],
)
def test_a_damaged_file_of_a_savepoint_fails_the_job_with_the_name_of_the_file(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    """The job fails before any part of it runs: half a state is worse than none (CKPT-11)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, job_id)
        scratch = MemoryStorage()
        FakeQuery(scratch, "sink-0").run(3)
        for path, file in scratch.files.items():
            await cluster.storage.write(path.replace(JOB, job_id), file)
        status = await take_savepoint(cluster, job_id, STOP)
        assert status.taken is not None
        damaged = next(name for name in cluster.saved.files if "/queries/sink-0/" in name)
        if content is None:
            del cluster.saved.files[damaged]
        else:
            cluster.saved.files[damaged] = content
        new = msgspec.structs.replace(stream(cluster), restore=Restore(path=status.taken.path))
        second = await cluster.submit(new)
        assert await cluster.wait_for_end(second, patience=600) is JobStatus.FAILED
        details = await details_of(cluster, second)
        (failure,) = [record.failure for record in details.failures]
        assert words in failure.message
        assert damaged.partition("/")[2] in failure.message
        assert not [span for span in cluster.history.attempts if span.job_id == second]
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


SETTLED_SECONDS = 30
"""Time for the dead leader's session to end and for the next leader to find the streams."""


@pytest.mark.parametrize(
    "name",
    ["savepoints.after-record", "savepoint.after-pins", "savepoint.after-manifest"],
)
def test_streams_suspended_by_a_dead_leader_continue_as_soon_as_the_next_leader_finds_them(
    tmp_path: Path, name: str
) -> None:
    """The streams do not wait for the ten minutes that a savepoint may take (CKPT-16)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, job_id)
        loop = asyncio.get_running_loop()
        died_at: list[float] = []
        killer = ProcessKiller(cluster)

        def die_and_note() -> None:
            killer.reached()
            died_at.append(loop.time())

        with armed(name, die_and_note), contextlib.suppress(StokerError):
            await take_savepoint(cluster, job_id, STOP)
        await wait_until_running(cluster, job_id)
        async with asyncio.timeout(900):
            while order_files(tmp_path):  # noqa: ASYNC110 - files send no event
                await asyncio.sleep(0.5)
        assert loop.time() - died_at[0] < SETTLED_SECONDS
        assert (await take_savepoint(cluster, job_id, STOP, "3" * 32)).taken is not None
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED
        assert len([span for span in cluster.history.attempts if span.job_id == job_id]) == 2

    simulate(tmp_path, scenario)


def order_files(folder: Path) -> list[Path]:
    """Order files of streams that are suspended at a boundary."""
    return list(folder.glob("executor-*/attempts/*/control/suspend.json"))


def test_a_stop_on_record_finishes_the_job_even_when_the_leader_dies(
    tmp_path: Path,
) -> None:
    """The details of the ended job name its savepoint (CKPT-15)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, job_id)
        with (
            armed("stop.after-record", ProcessKiller(cluster).reached),
            contextlib.suppress(StokerError),
        ):
            await take_savepoint(cluster, job_id, STOP)
        assert await cluster.wait_for_end(job_id, patience=60) is JobStatus.FINISHED
        details = await details_of(cluster, job_id)
        listed = await cluster.ask(lambda d: d.savepoints(SAVEPOINT_DIRECTORY))
        assert details.checkpoints.latest_savepoint is not None
        assert [each.path for each in listed] == [details.checkpoints.latest_savepoint.path]

    simulate(tmp_path, scenario)
