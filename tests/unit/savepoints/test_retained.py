"""Which retained checkpoints are kept, and where the last checkpoint of a job is found."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.checkpoints import SavepointSummary
from stoker.core.ids import JobId, RegionId
from stoker.core.values import Millis
from stoker.savepoints.locations import SavepointLocation, SavepointServices, locate
from stoker.savepoints.manifest import MANIFEST
from stoker.savepoints.options import SavepointOptions
from stoker.savepoints.retained import (
    expired,
    last_checkpoint,
    list_retained,
    refer_to_savepoint,
    remove_expired,
    retained_location,
)
from stoker.savepoints.take import SavepointHeader, SavepointWriter
from stoker.storage.memory import MemoryStorage
from unit.savepoints.checkpoint_files import JOB, FakeQuery, streaming_graph

DAY = 24 * 3600 * 1000


class World:
    """The storage of a cluster, and other directories by their URLs."""

    def __init__(self, options: SavepointOptions) -> None:
        self.storage = MemoryStorage()
        self.places: dict[str, MemoryStorage] = {}
        self.services = SavepointServices(options=options, open_storage=self.open)

    def open(self, url: str) -> MemoryStorage:
        return self.places.setdefault(url, MemoryStorage())

    async def keep(self, job_id: str, *, at: Millis = 1, expires: bool = True) -> SavepointLocation:
        location = retained_location(JobId(job_id), self.storage, self.services)
        await self.write(location, kind="checkpoint", at=at, expires=expires)
        return location

    async def write(self, location: SavepointLocation, *, kind: str, at: Millis, expires: bool):
        FakeQuery(self.storage, "out").run()
        header = SavepointHeader(savepoint_id="one", kind=kind, at=at, expires=expires)
        writer = SavepointWriter(self.storage, streaming_graph("out"), location, header)
        await writer.write([RegionId("out")])

    async def kept(self) -> list[str]:
        found = await list_retained(self.storage, self.services)
        return [each.path.rpartition("-")[2][:1] for each in found]


@pytest.fixture(params=[None, "/kept"], ids=["in the storage", "in a directory of its own"])
def world(request: pytest.FixtureRequest) -> World:
    return World(
        SavepointOptions(
            retained_directory=request.param,
            retained_max_count=2,
            retained_max_age=timedelta(days=10),
        )
    )


async def test_the_newest_of_each_job_name_are_kept_and_none_that_is_too_old(world: World) -> None:
    for day, job in enumerate("abcd", start=1):
        await world.keep(job * 32, at=day * DAY)
    await remove_expired(world.storage, world.services, now=5 * DAY)
    assert await world.kept() == ["d", "c"]
    await remove_expired(world.storage, world.services, now=int(13.5 * DAY))
    assert await world.kept() == ["d"]


async def test_what_the_cluster_did_not_make_unasked_is_never_removed(world: World) -> None:
    """Savepoints, and checkpoints that a release retained which left the removal to its users."""
    for day, job in enumerate("abc", start=1):
        await world.keep(job * 32, at=day * DAY, expires=False)
    await remove_expired(world.storage, world.services, now=1000 * DAY)
    assert await world.kept() == ["c", "b", "a"]


async def test_the_last_checkpoint_of_a_job_is_its_own_or_the_savepoint_that_stopped_it(
    world: World,
) -> None:
    kept = await world.keep(JOB)
    other = JobId("b" * 32)
    assert await last_checkpoint(other, world.storage, world.services) is None
    saved = locate("/saved/one", world.open)
    await world.write(saved, kind="savepoint", at=2, expires=False)
    await refer_to_savepoint(retained_location(other, world.storage, world.services), "/saved/one")
    found = [await last_checkpoint(job, world.storage, world.services) for job in (JOB, other)]
    assert [each and each.url for each in found] == [kept.url, "/saved/one"]
    await saved.parent.delete(saved.inside(MANIFEST))
    assert await last_checkpoint(other, world.storage, world.services) is None


def summary(name: str, at: int, owner: str = "") -> SavepointSummary:
    return SavepointSummary(
        path=f"/kept/{name}-{at}",
        job_id="",
        job_name=name,
        created_at=at,
        kind="checkpoint",
        size_bytes=0,
        expires=True,
        owner=owner,
    )


def test_a_job_of_another_owner_removes_nothing_under_the_same_name() -> None:
    found = [summary("etl", at, "ana") for at in (1, 2)]
    found += [summary("etl", at, "bob") for at in (3, 4, 5)]
    assert expired(found, oldest=0, max_count=2) == [summary("etl", 3, "bob")]


@given(
    found=st.lists(st.builds(summary, st.sampled_from("ab"), st.integers(0, 20)), max_size=20),
    oldest=st.integers(0, 20),
    max_count=st.integers(0, 5),
)
def test_no_checkpoint_is_kept_while_a_newer_one_of_the_same_name_is_removed(
    found: list[SavepointSummary], oldest: int, max_count: int
) -> None:
    removed = expired(found, oldest=oldest, max_count=max_count)
    left = list(found)
    for each in removed:
        left.remove(each)
    for name in "ab":
        kept = [each.created_at for each in left if each.job_name == name]
        gone = [each.created_at for each in removed if each.job_name == name]
        assert len(kept) <= max_count
        assert all(at >= oldest for at in kept)
        assert not kept or not gone or min(kept) >= max(gone)
        assert not gone or len(kept) == max_count or max(gone) < oldest
