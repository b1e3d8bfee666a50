"""What has to be divided for a rescale, and what has not. No Spark is needed to decide it."""

from pathlib import Path

import pytest

from stoker.core.errors import InvalidInput
from stoker.core.graph import FormatWrite, JobGraph, JobType, Sink, Source, Sql
from stoker.core.ids import RegionId
from stoker.processes import repartitioning
from stoker.processes.repartitioning import divided_savepoint, repartition_savepoint
from stoker.savepoints.locations import locate, read_manifest
from stoker.savepoints.take import SavepointHeader, SavepointWriter
from stoker.storage.memory import MemoryStorage
from stoker.storage.open import open_place
from unit.savepoints.checkpoint_files import JOB, FakeQuery


class Saved:
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
        await SavepointWriter(self.storage, self.graph, locate(path, open_place), header).write(
            [RegionId("out")]
        )
        return path


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path)


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Instead of a Spark: into how many partitions it was asked to divide what."""
    asked: list[int] = []

    async def divide(partitions: int, folders: list[Path], _work: Path) -> None:
        asked.extend([partitions] * len(folders))

    monkeypatch.setattr(repartitioning, "_divide", divide)
    return asked


async def test_a_job_without_state_is_rescaled_from_its_savepoint_as_it_is(
    saved: Saved, divided: list[int]
) -> None:
    for name in [name for name in saved.storage.files if "/state/" in name]:
        del saved.storage.files[name]
    saved.query.partitions = 0
    saved.query.run(2)
    path = await saved.take()
    assert await divided_savepoint(path, 4) == path
    with pytest.raises(InvalidInput, match="no state that could be divided"):
        await repartition_savepoint(path, 4, None)
    assert divided == []


async def test_state_that_has_so_many_partitions_already_stays_as_it_is(
    saved: Saved, divided: list[int]
) -> None:
    saved.query.run(2)
    path = await saved.take()
    assert await divided_savepoint(path, saved.query.partitions) == path
    assert divided == []


async def test_a_first_batch_that_was_only_planned_is_planned_anew_with_other_partitions(
    saved: Saved, divided: list[int]
) -> None:
    """Spark goes by the number of partitions that stands in the plan."""
    saved.query.plan()
    path = await saved.take()
    assert (await read_manifest(locate(path, open_place))).queries[0].pending
    made = await divided_savepoint(path, 4)
    assert made != path
    (query,) = (await read_manifest(locate(made, open_place))).queries
    assert (query.batch_id, query.pending) == (None, False)
    assert divided == []


async def test_a_first_batch_that_the_sink_may_have_is_not_planned_anew(
    saved: Saved, divided: list[int]
) -> None:
    saved.query.plan()
    log = saved.root / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "0").write_text("v1")
    path = await saved.take()
    with pytest.raises(InvalidInput, match="may be written already"):
        await divided_savepoint(path, 4)
    assert divided == []
