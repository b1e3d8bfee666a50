"""What has to be repartitioned for a rescale. The decision needs no Spark."""

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from stoker.aio.threads import LimitedThreads
from stoker.core.errors import InvalidInput, UnusableSavepoint
from stoker.core.graph import FormatWrite, JobGraph, JobType, Sink, Source, Sql
from stoker.core.ids import RegionId
from stoker.processes import repartitioning
from stoker.processes.repartitioning import repartition_savepoint, repartitioned_savepoint
from stoker.savepoints.locations import locate, read_manifest
from stoker.savepoints.take import SavepointHeader, SavepointWriter
from stoker.storage.contract import Storage
from stoker.storage.memory import MemoryStorage
from stoker.storage.open import open_place
from unit.savepoints.checkpoint_files import JOB, FakeQuery

T = TypeVar("T")


class SavedJob:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.storage = MemoryStorage()
        self.query = FakeQuery(self.storage, "out")

    @property
    def graph(self) -> JobGraph:
        source = Source(name="raw", read=Sql(query="SELECT 1"), streaming=True)
        write = FormatWrite(format="parquet", path=str(self.root / "out"))
        sink = Sink(name="out", input="raw", write=write)
        return JobGraph(job_id=JOB, name="job", vertices=(source, sink), job_type=JobType.STREAMING)

    async def take(self) -> str:
        path = str(self.root / "savepoint")
        header = SavepointHeader(savepoint_id="one", kind="savepoint", at=1, stopped=True)
        content = b"answer = 42"
        await self.storage.write("artifact", content)
        artifacts = {hashlib.sha256(content).hexdigest(): "artifact"}
        location = locate(path, open_place)
        writer = SavepointWriter(self.storage, self.graph, location, header, artifacts)
        await writer.write([RegionId("out")])
        return path


@pytest.fixture
def saved(tmp_path: Path) -> SavedJob:
    return SavedJob(tmp_path)


@pytest.fixture
def partition_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stands in for Spark: records which state was repartitioned into how many partitions."""
    asked: list[int] = []

    async def divide(partitions: int, folders: list[Path], _work: Path) -> None:
        asked.extend([partitions] * len(folders))

    monkeypatch.setattr(repartitioning, "_run_repartition", divide)
    return asked


async def test_a_job_without_state_is_rescaled_from_its_unchanged_savepoint(
    saved: SavedJob, partition_counts: list[int]
) -> None:
    for name in [name for name in saved.storage.files if "/state/" in name]:
        del saved.storage.files[name]
    saved.query.partitions = 0
    saved.query.run(2)
    path = await saved.take()
    assert await repartitioned_savepoint(path, 4, open_place) == path
    with pytest.raises(InvalidInput, match="no state that could be repartitioned"):
        await repartition_savepoint(path, 4, None, open_place)
    assert partition_counts == []


async def test_state_that_already_has_the_wanted_partitions_is_unchanged(
    saved: SavedJob, partition_counts: list[int]
) -> None:
    saved.query.run(2)
    path = await saved.take()
    assert await repartitioned_savepoint(path, saved.query.partitions, open_place) == path
    assert partition_counts == []


async def test_a_planned_first_batch_is_planned_again_with_the_new_partitions(
    saved: SavedJob, partition_counts: list[int]
) -> None:
    """Spark uses the number of partitions in the plan."""
    saved.query.plan()
    path = await saved.take()
    assert (await read_manifest(locate(path, open_place))).queries[0].pending
    made = await repartitioned_savepoint(path, 4, open_place)
    assert made != path
    (query,) = (await read_manifest(locate(made, open_place))).queries
    assert (query.batch_id, query.pending) == (None, False)
    assert partition_counts == []


async def test_a_first_batch_that_may_be_in_the_sink_is_not_planned_again(
    saved: SavedJob, partition_counts: list[int]
) -> None:
    saved.query.plan()
    log = saved.root / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "0").write_text("v1")
    path = await saved.take()
    with pytest.raises(InvalidInput, match="may be written already"):
        await repartitioned_savepoint(path, 4, open_place)
    assert partition_counts == []


async def test_the_copy_holds_the_artifacts_of_the_job(saved: SavedJob) -> None:
    saved.query.plan()
    made = await repartition_savepoint(await saved.take(), 4, None, open_place)
    (artifact,) = Path(made, "artifacts").iterdir()
    assert artifact.read_bytes() == b"answer = 42"


async def test_a_damaged_artifact_is_not_copied_into_a_savepoint_that_looks_sound(
    saved: SavedJob,
) -> None:
    saved.query.plan()
    path = await saved.take()
    (artifact,) = Path(path, "artifacts").iterdir()
    artifact.write_bytes(b"answer = 41")
    with pytest.raises(UnusableSavepoint, match="is not what was saved"):
        await repartition_savepoint(path, 4, None, open_place)
    assert list(saved.root.glob("savepoint-*")) == []


async def test_a_rescale_reads_what_clients_have_named_on_no_common_thread(
    saved: SavedJob, partition_counts: list[int]
) -> None:
    """The savepoint, its graph, and the log of the sink may be at a place that hangs."""
    saved.query.plan()
    path = await saved.take()
    log = saved.root / "out" / "_spark_metadata"
    threads: set[str] = set()
    opened: list[str] = []
    own = LimitedThreads("foreign", limit=4)

    async def off_loop(call: Callable[[], T], *, is_long: bool = False) -> T:
        def noting() -> T:
            threads.add(threading.current_thread().name)
            return call()

        return await own.run(noting)

    def open_storage(url: str) -> Storage:
        opened.append(url)
        return open_place(url, off_loop=off_loop)

    made = await repartitioned_savepoint(path, 4, open_storage)
    assert made != path
    assert threads == {"foreign"}
    assert {str(saved.root), str(log)} <= set(opened)
