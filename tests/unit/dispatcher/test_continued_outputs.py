"""The submission of a job that continues the output of an ended one."""

import msgspec
import pytest

from builders import virtual, wait_until_quiet
from stoker.core.errors import DuplicateJob, Forbidden, IncompatibleSavepoint, OutputInUse
from stoker.core.graph import FormatRead, JobGraph, Restore, Source
from stoker.core.ids import RegionId
from stoker.gateways.dispatcher import CallerRights
from stoker.savepoints.locations import locate
from stoker.savepoints.outputs import LOG, WRITER, encode_writer
from stoker.savepoints.take import SavepointHeader, SavepointWriter
from stoker.storage.memory import MemoryStorage
from unit.dispatcher.dispatching import World, new_world
from unit.savepoints.checkpoint_files import JOB, FakeQuery, streaming_graph

KEPT = f"/kept/checkpoint-{JOB}"


def stream() -> JobGraph:
    source = Source(name="raw", read=FormatRead(format="text", path="/in"), streaming=True)
    graph = streaming_graph("one")
    return msgspec.structs.replace(graph, vertices=(source, *graph.vertices[1:]))


async def leave_output(world: World) -> None:
    """An ended job has written one batch and left its last checkpoint."""
    log = world.savepoints.open_storage(f"/out/one/{LOG}")
    await log.write("0", b"v1")
    await log.write(WRITER, encode_writer(JOB))
    checkpoints = MemoryStorage()
    FakeQuery(checkpoints, "one").run()
    header = SavepointHeader(savepoint_id="one", kind="checkpoint", at=1, expires=True)
    location = locate(KEPT, world.savepoints.open_storage)
    writer = SavepointWriter(checkpoints, stream(), location, header)
    await writer.write([RegionId("one")])


def again(world: World, **fields: object) -> JobGraph:
    return msgspec.structs.replace(stream(), job_id=world.ids.job(), **fields)


@virtual
async def test_the_origin_is_chosen_once_and_told_to_the_client() -> None:
    """The job starts from it under every leader, and a repeated submission is the same job."""
    async with new_world() as world:
        first = world.master()
        await wait_until_quiet()
        await leave_output(world)
        graph = again(world)
        dispatcher = await world.dispatcher()
        answer = await dispatcher.submit_job(graph)
        assert (answer.repeated, answer.continues_from) == (False, KEPT)
        assert (await dispatcher.submit_job(graph)).repeated
        # Its own first batches: another choice at this moment would be wrong.
        world.places.clear()
        await first.stop()
        second = world.master()
        await wait_until_quiet()
        for master in (first, second):
            assert master.jobs.last.to_run.graph.restore == Restore(path=KEPT, by_cluster=True)
        assert (await (await world.dispatcher()).submit_job(graph)).repeated


@virtual
async def test_a_choice_of_the_user_is_part_of_what_was_submitted() -> None:
    async with new_world() as world:
        world.master()
        await wait_until_quiet()
        await leave_output(world)
        graph = again(world)
        dispatcher = await world.dispatcher()
        await dispatcher.submit_job(graph)
        with pytest.raises(DuplicateJob):
            await dispatcher.submit_job(msgspec.structs.replace(graph, restore=Restore(path=KEPT)))


@virtual
async def test_an_output_of_an_unknown_owner_is_continued_only_by_who_may_do_everything() -> None:
    async with new_world() as world:
        world.master()
        await wait_until_quiet()
        await leave_output(world)
        dispatcher = await world.dispatcher()
        with pytest.raises(Forbidden, match="a job of an unknown owner"):
            await dispatcher.submit_job(
                again(world), "ana", CallerRights(name="ana", only_own=True)
            )
        answer = await dispatcher.submit_job(again(world), "op", CallerRights(name="op"))
        assert answer.continues_from == KEPT


@virtual
async def test_a_refused_continuation_leaves_no_job() -> None:
    async with new_world() as world:
        master = world.master()
        await wait_until_quiet()
        await leave_output(world)
        dispatcher = await world.dispatcher()
        with pytest.raises(IncompatibleSavepoint, match=f"stoker run -s {KEPT} FILE"):
            await dispatcher.submit_job(again(world, name="another"))
        assert master.jobs.started == []


@virtual
async def test_an_output_of_a_stream_that_has_not_ended_is_refused_to_another() -> None:
    """Spark would drop the rows of one of them; a savepoint to start from changes nothing."""
    async with new_world() as world:
        master = world.master()
        await wait_until_quiet()
        dispatcher = await world.dispatcher()
        first = again(world)
        await dispatcher.submit_job(first)
        for second in (again(world), again(world, restore=Restore(path=KEPT))):
            with pytest.raises(OutputInUse, match=f"stoker stop {first.job_id[:12]}"):
                await dispatcher.submit_job(second)
        assert (await dispatcher.submit_job(first)).repeated
        assert len(master.jobs.started) == 1
