"""Savepoints of simulated jobs: stops that succeed, fail, and outlive their masters."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from simulation.stories import AGAIN_AND_AGAIN, FOREVER, job, simulate
from stoker.core.checkpoints import SavepointRequest
from stoker.core.errors import CannotTakeSavepoint, InvalidInput, NotFound, StokerError
from stoker.core.failpoints import armed
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.gateways.dispatcher import SavepointStatus
from stoker.testing.simulated_cluster import SimulatedCluster
from stoker.testing.virtual_time import running_process

DIRECTORY = "/saved"
STOP = SavepointRequest(directory=DIRECTORY, stop=True, limit_seconds=20)


def stream(cluster: SimulatedCluster, **more: str) -> JobGraph:
    graph = job(cluster, seconds=FOREVER, sinks=2, streaming=True, restart=AGAIN_AND_AGAIN)
    return msgspec.structs.replace(graph, configuration=graph.configuration | more)


async def until_running(cluster: SimulatedCluster, job_id: JobId) -> None:
    while True:
        details = await cluster.ask(lambda dispatcher: dispatcher.job_details(job_id))
        states = {region.current.state.value for region in details.regions}
        if details.status is JobStatus.RUNNING and states == {"RUNNING"}:
            return
        await asyncio.sleep(0.5)


async def trigger(
    cluster: SimulatedCluster, job_id: JobId, request: SavepointRequest, trigger_id: str = "1" * 32
) -> SavepointStatus:
    await cluster.ask(lambda d: d.trigger_savepoint(job_id, trigger_id, request))
    while True:
        status = await cluster.ask(lambda d: d.savepoint_status(job_id, trigger_id, 5))
        if status.done:
            return status


def test_a_job_that_is_stopped_with_a_savepoint_finishes(tmp_path: Path):
    """CKPT-15, OPS-01: and a repeated trigger is the same operation."""

    async def story(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await until_running(cluster, job_id)
        status = await trigger(cluster, job_id, STOP)
        assert status.taken is not None
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED
        again = await trigger(cluster, job_id, STOP)
        assert again == status
        listed = await cluster.ask(lambda d: d.savepoints(DIRECTORY))
        assert [each.path for each in listed] == [status.taken.path]
        new = msgspec.structs.replace(stream(cluster), restore=Restore(path=status.taken.path))
        second = await cluster.submit(new)
        await until_running(cluster, second)
        details = await cluster.ask(lambda d: d.job_details(second))
        assert details.checkpoints.restored is not None
        await cluster.ask(lambda d: d.dispose_savepoint(status.taken.path))
        assert cluster.saved.files == {}
        await cluster.cancel(second)
        assert await cluster.wait_for_end(second) is JobStatus.CANCELED

    simulate(tmp_path, story)


def test_without_a_batch_boundary_in_time_the_job_goes_on(tmp_path: Path):
    """CKPT-16"""

    async def story(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster, **{"fake.no-boundary": "1"}))
        await until_running(cluster, job_id)
        status = await trigger(cluster, job_id, STOP)
        assert status.taken is None
        assert "no batch boundary" in status.message
        assert "goes on" in status.message
        await asyncio.sleep(60)
        details = await cluster.ask(lambda d: d.job_details(job_id))
        assert details.status is JobStatus.RUNNING
        assert details.failures == ()
        assert details.checkpoints.counts.failed == 1
        assert cluster.saved.files == {}
        await cluster.cancel(job_id)
        assert await cluster.wait_for_end(job_id) is JobStatus.CANCELED

    simulate(tmp_path, story)


def test_a_savepoint_directory_that_fails_lets_the_job_go_on(tmp_path: Path):
    """CKPT-16, for a stop: its streams are not left waiting."""

    async def story(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await until_running(cluster, job_id)
        cluster.saved.go_away()
        status = await trigger(cluster, job_id, STOP)
        assert status.error == "StorageUnavailable"
        cluster.saved.come_back()
        await asyncio.sleep(5)
        assert await cluster.ask(lambda d: d.job_status(job_id)) is JobStatus.RUNNING
        assert (await trigger(cluster, job_id, STOP, "2" * 32)).taken is not None
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    simulate(tmp_path, story)


def test_what_cannot_take_a_savepoint_says_why(tmp_path: Path):
    async def story(cluster: SimulatedCluster) -> None:
        batch = await cluster.submit(job(cluster, seconds=20))
        with pytest.raises(CannotTakeSavepoint, match="batch job"):
            await trigger(cluster, batch, STOP)
        assert await cluster.wait_for_end(batch) is JobStatus.FINISHED
        with pytest.raises(CannotTakeSavepoint, match="has ended as FINISHED"):
            await trigger(cluster, batch, STOP)
        with pytest.raises(NotFound):
            await cluster.ask(lambda d: d.savepoint_status(batch, "9" * 32, 0))
        missing = msgspec.structs.replace(stream(cluster), restore=Restore(path="/saved/none"))
        with pytest.raises(InvalidInput, match="there is no such directory"):
            await cluster.submit(missing)

    simulate(tmp_path, story)


def dies_once(cluster: SimulatedCluster, hit: int = 1) -> Callable[[], None]:
    """What crashes the process that reaches a failpoint for the so manieth time."""
    hits: list[str] = []

    def die() -> None:
        hits.append(running_process.get())
        if len(hits) == hit:
            cluster.crash(hits[-1])

    return die


SETTLED_SECONDS = 30
"""For the session of the dead leader to end, and for the next one to find the streams."""


@pytest.mark.parametrize(
    "name",
    ["savepoints.after-record", "savepoint.after-pins", "savepoint.after-manifest"],
)
def test_streams_that_wait_for_a_dead_leader_go_on_as_soon_as_the_next_one_has_found_them(
    tmp_path: Path, name: str
):
    """CKPT-16: they do not wait for the ten minutes that a savepoint may take."""

    async def story(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await until_running(cluster, job_id)
        loop = asyncio.get_running_loop()
        died_at: list[float] = []
        die = dies_once(cluster)

        def die_and_note() -> None:
            die()
            died_at.append(loop.time())

        with armed(name, die_and_note), contextlib.suppress(StokerError):
            await trigger(cluster, job_id, STOP)
        await until_running(cluster, job_id)
        while any(order_files(tmp_path)):  # noqa: ASYNC110 - files tell nobody
            await asyncio.sleep(0.5)
        assert loop.time() - died_at[0] < SETTLED_SECONDS
        assert (await trigger(cluster, job_id, STOP, "3" * 32)).taken is not None
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED
        assert len([span for span in cluster.history.attempts if span.job_id == job_id]) == 2

    simulate(tmp_path, story)


def order_files(folder: Path) -> list[Path]:
    """Of streams that wait at a boundary."""
    return list(folder.glob("executor-*/attempts/*/control/suspend.json"))


def test_a_leader_that_dies_after_the_record_of_a_stop_leaves_a_job_that_is_finished(
    tmp_path: Path,
):
    """CKPT-15, and whoever asks for the ended job is told its savepoint."""

    async def story(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await until_running(cluster, job_id)
        with armed("stop.after-record", dies_once(cluster)), contextlib.suppress(StokerError):
            await trigger(cluster, job_id, STOP)
        assert await cluster.wait_for_end(job_id, patience=60) is JobStatus.FINISHED
        details = await cluster.ask(lambda d: d.job_details(job_id))
        listed = await cluster.ask(lambda d: d.savepoints(DIRECTORY))
        assert details.checkpoints.latest_savepoint is not None
        assert [each.path for each in listed] == [details.checkpoints.latest_savepoint.path]

    simulate(tmp_path, story)
