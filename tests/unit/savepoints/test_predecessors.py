"""A job that writes into the output of an ended one continues it, if that is surely right."""

from collections.abc import Callable

import msgspec
import pytest

from stoker.core.errors import Forbidden, IncompatibleSavepoint
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, JobType, Restore, Sink, Source
from stoker.core.ids import JobId, RegionId
from stoker.core.job_options import CONTINUE_OUTPUT
from stoker.savepoints.access import ALL_SAVEPOINTS, SavepointAccess
from stoker.savepoints.locations import SavepointServices
from stoker.savepoints.options import SavepointOptions
from stoker.savepoints.outputs import LOG, WRITER, encode_writer
from stoker.savepoints.predecessors import continue_output
from stoker.savepoints.retained import retained_location
from stoker.savepoints.take import SavepointHeader, SavepointWriter
from stoker.storage.memory import MemoryStorage
from unit.savepoints.checkpoint_files import JOB, FakeQuery, streaming_graph

NEW = JobId("b" * 32)
KEPT = f"/kept/checkpoint-{JOB}"


class World:
    """A cluster, the outputs of an ended job, and its last checkpoint."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.places: dict[str, MemoryStorage] = {}
        options = SavepointOptions(retained_directory="/kept")
        self.services = SavepointServices(options=options, open_storage=self.open)
        self.queries = {name: FakeQuery(self.storage, name) for name in ("one", "two")}

    def open(self, url: str) -> MemoryStorage:
        return self.places.setdefault(url, MemoryStorage())

    def log(self, sink: str) -> dict[str, bytes]:
        return self.open(f"/out/{sink}/{LOG}").files

    def write(self, sink: str, batches: int, writer: JobId | None = JOB) -> None:
        """Write an output of so many batches."""
        for number in range(batches):
            self.log(sink)[str(number)] = b"v1"
        if writer is not None:
            self.log(sink)[WRITER] = encode_writer(writer)

    async def end(self, graph: JobGraph, batches: int = 3) -> None:
        """End the job after so many batches; its outputs and its last checkpoint stay."""
        location = retained_location(graph.job_id, self.storage, self.services)
        header = SavepointHeader(
            savepoint_id="one", kind="checkpoint", at=1, expires=True, owner="ana"
        )
        for sink in graph.vertices:
            if isinstance(sink, Sink):
                self.queries[sink.name].run(batches)
                self.write(sink.name, batches)
        regions = [RegionId(v.name) for v in graph.vertices if isinstance(v, Sink)]
        await SavepointWriter(self.storage, graph, location, header).write(regions)

    async def origin(
        self, graph: JobGraph, access: SavepointAccess = ALL_SAVEPOINTS
    ) -> Restore | None:
        return (await continue_output(graph, self.storage, self.services, access)).restore


@pytest.fixture
def world() -> World:
    return World()


def again(*sinks: str, **fields: object) -> JobGraph:
    """The same job, submitted another time."""
    return msgspec.structs.replace(streaming_graph(*sinks), job_id=NEW, **fields)


async def test_a_job_that_is_started_again_into_its_own_output_continues(world: World) -> None:
    await world.end(streaming_graph("one", "two"))
    assert await world.origin(again("one", "two")) == Restore(path=KEPT, by_cluster=True)


async def test_a_job_that_was_ended_between_writing_and_committing_continues(world: World) -> None:
    world.queries["one"].run(2)
    world.queries["one"].plan()
    await world.end(streaming_graph("one"), batches=0)
    for batches in (2, 3):
        world.write("one", batches)
        assert await world.origin(again("one")) == Restore(path=KEPT, by_cluster=True)


async def test_only_its_owner_continues_an_output(world: World) -> None:
    await world.end(streaming_graph("one", "two"))
    again_of_both = again("one", "two")
    kept = Restore(path=KEPT, by_cluster=True)
    assert await world.origin(again_of_both, SavepointAccess(owner="ana")) == kept
    with pytest.raises(Forbidden, match="holds the output of a job of ana; only its owner"):
        await world.origin(again_of_both, SavepointAccess(owner="bob", without_owner=True))


def lose_checkpoint(world: World) -> None:
    world.open("/kept").files.clear()


def lose_outputs(world: World) -> None:
    world.log("one").clear()
    world.log("two").clear()


def lose_note(world: World) -> None:
    del world.log("one")[WRITER]


def change_writer(world: World) -> None:
    """Another job, which still runs or has left nothing, wrote one of the outputs last."""
    world.log("two")[WRITER] = encode_writer(JobId("c" * 32))


def change_all_writers(world: World) -> None:
    for sink in ("one", "two"):
        world.log(sink)[WRITER] = encode_writer(JobId("c" * 32))


def damage_checkpoint(world: World) -> None:
    world.open("/kept").files[f"checkpoint-{JOB}/manifest.json"] = b"{"


@pytest.mark.parametrize(
    "change",
    [
        lose_checkpoint,
        lose_outputs,
        lose_note,
        change_writer,
        change_all_writers,
        damage_checkpoint,
    ],
)
async def test_without_proof_nothing_is_continued(
    world: World, change: Callable[[World], None]
) -> None:
    """The query itself then refuses to begin in an output with batches."""
    await world.end(streaming_graph("one", "two"))
    change(world)
    assert await world.origin(again("one", "two")) is None


async def test_a_job_in_a_new_directory_or_without_streams_begins_from_scratch(
    world: World,
) -> None:
    await world.end(streaming_graph("one"))
    elsewhere = Sink(name="one", input="raw", write=FormatWrite(format="parquet", path="/out/new"))
    fresh = again("one", vertices=(*streaming_graph().vertices, elsewhere))
    assert await world.origin(fresh) is None
    batch = JobGraph(
        job_id=NEW,
        name="words",
        vertices=(
            Source(name="raw", read=FormatRead(format="json", path="/in")),
            Sink(name="one", input="raw", write=FormatWrite(format="parquet", path="/out/one")),
        ),
        job_type=JobType.BATCH,
    )
    assert await world.origin(batch) is None


async def test_the_choice_of_the_user_wins(world: World) -> None:
    await world.end(streaming_graph("one"))
    mine = Restore(path="/saved/mine")
    assert await world.origin(again("one", restore=mine)) == mine
    assert await world.origin(again("one", configuration={CONTINUE_OUTPUT: "false"})) is None


async def refusal_of(world: World, graph: JobGraph) -> str:
    with pytest.raises(IncompatibleSavepoint) as refused:
        await world.origin(graph)
    message = refused.value.message
    assert f"stoker run -s {KEPT} FILE" in message
    assert f"job {JOB}" in message
    return message


async def test_a_checkpoint_behind_or_ahead_of_the_output_is_refused(world: World) -> None:
    """Something wrote after the checkpoint, or somebody removed a part of the output."""
    await world.end(streaming_graph("one", "two"))
    world.write("one", 5)
    assert "has the batches up to 4" in await refusal_of(world, again("one", "two"))
    world.log("one").clear()
    assert "/out/one has no batch" in await refusal_of(world, again("one", "two"))


async def test_another_job_does_not_continue_but_learns_how_it_could(world: World) -> None:
    await world.end(streaming_graph("one"))
    assert "named words" in await refusal_of(world, again("one", name="letters"))


async def test_a_job_with_other_sources_or_sinks_does_not_continue(world: World) -> None:
    await world.end(streaming_graph("one"))
    renamed = Sink(name="two", input="raw", write=FormatWrite(format="parquet", path="/out/one"))
    graph = again("one", vertices=(*streaming_graph().vertices, renamed))
    assert "by a sink named two" in await refusal_of(world, graph)
    source = Source(name="raw", read=FormatRead(format="kafka"), streaming=True)
    sinks = streaming_graph("one").vertices[1:]
    await refusal_of(world, again("one", vertices=(source, *sinks)))
