"""The sweep with real stores: it needs complete records and never removes changed files."""

import random
from collections.abc import AsyncIterator

import msgspec
import pytest

from builders import build_graph
from stoker.core.errors import LeadershipLost, StorageUnavailable, Unavailable
from stoker.core.graph import JobGraph, JobType
from stoker.core.ids import Ids, JobId
from stoker.core.results import JobDetails, JobResult
from stoker.core.states import JobStatus
from stoker.dispatcher.options import DispatcherOptions
from stoker.dispatcher.stores import Stores, open_stores
from stoker.dispatcher.sweep import OrphanSweep
from stoker.ha import keys
from stoker.ha.coordinator import Put
from stoker.ha.memory import MemoryCoordination, MemoryCoordinator
from stoker.ha.stores.job_graphs import JobGraphStore
from stoker.storage.memory import MemoryStorage
from stoker.testing.leadership import seize_leadership

DAY_MS = 24 * 3600 * 1000
BLOB = "f" * 64


class World:
    """A leader with its stores, its storage and its sweep, and a clock that the test sets."""

    coordination: MemoryCoordination
    coordinator: MemoryCoordinator

    def __init__(self, stores: Stores, storage: MemoryStorage, ids: Ids) -> None:
        self.stores = stores
        self.storage = storage
        self.ids = ids
        self.now = 100 * DAY_MS
        storage.wall_clock = lambda: self.now
        self.live: set[JobId] = set()
        self.quarantined: set[JobId] = set()
        self.sweep = OrphanSweep(
            storage,
            stores,
            DispatcherOptions(),
            live=lambda: self.live,
            is_quarantined=lambda job_id: job_id in self.quarantined,
            wall_clock=lambda: self.now,
        )

    async def accept(self) -> JobGraph:
        graph = build_graph(job_id=self.ids.job(), name="orders")
        await self.storage.write(f"blobs/{graph.job_id}/{BLOB}", b"")
        await self.stores.graphs.put(graph, submitted_at=self.now)
        return graph

    async def end(self, graph: JobGraph) -> None:
        facts = {
            "job_id": graph.job_id,
            "name": graph.name,
            "job_type": JobType.BATCH,
            "status": JobStatus.FINISHED,
            "start": 1,
            "end": 2,
        }
        await self.stores.results.create_dirty(
            JobResult(**facts), JobDetails(**facts, timestamps={})
        )


@pytest.fixture
async def world() -> AsyncIterator[World]:
    ids = Ids(random.Random(1))
    coordination = MemoryCoordination()
    coordinator = coordination.session()
    leadership = await seize_leadership(coordinator, ids=ids)
    storage = MemoryStorage()
    world = World(open_stores(leadership, storage, ids), storage, ids)
    world.coordination, world.coordinator = coordination, coordinator
    yield world
    await coordinator.close()


async def test_files_of_a_crashed_submission_are_removed_after_a_day(world: World) -> None:
    """Age alone decides, for files of any job (STORE-10, CLEAN-03, DISP-24)."""
    graph = await world.accept()
    wanted = dict(world.storage.files)
    crashed = world.ids.job()
    left = [
        f"jobs/{crashed}/graph/1.json",
        f"jobs/{graph.job_id}/graph/lost.json",
        f"blobs/{crashed}/{BLOB}",
        f"results/{graph.job_id}/lost.json",
    ]
    for path in left:
        await world.storage.write(path, b"")
    world.now += DAY_MS
    assert await world.sweep.sweep() == 0
    world.now += 1000
    assert await world.sweep.sweep() == len(left)
    assert world.storage.files == wanted


async def test_a_leader_that_has_a_successor_removes_nothing(world: World) -> None:
    """The findings of its sweep are outdated once another leader has begun (design invariant 4)."""
    await world.accept()
    crashed = world.ids.job()
    await world.storage.write(f"blobs/{crashed}/{BLOB}", b"")
    world.now += 2 * DAY_MS
    await seize_leadership(world.coordination.session(), ids=world.ids)
    with pytest.raises(LeadershipLost):
        await world.sweep.sweep()
    assert f"blobs/{crashed}/{BLOB}" in world.storage.files


async def test_a_leader_that_may_have_a_successor_removes_nothing(world: World) -> None:
    """A leader may freeze between two removals, and notices that by its clock."""
    await world.accept()
    kept = len(world.storage.files)
    crashed = world.ids.job()
    for number in range(3):
        await world.storage.write(f"jobs/{crashed}/graph/{number}.json", b"")
    world.now += 2 * DAY_MS
    delete = world.storage.delete

    async def delete_and_lose_contact(path: str) -> None:
        await delete(path)
        world.coordination.suspend(world.coordinator)

    world.storage.delete = delete_and_lose_contact  # type: ignore[method-assign]
    with pytest.raises(LeadershipLost):
        await world.sweep.sweep()
    assert len(world.storage.files) == kept + 2


async def test_an_ended_job_keeps_its_details_and_loses_files_written_after_its_clean_up(
    world: World,
) -> None:
    """For example, an attempt that ends late writes such files (STORE-19, CLEAN-13)."""
    graph = await world.accept()
    await world.end(graph)
    world.now += 2 * DAY_MS
    assert await world.sweep.sweep() == 0, "its clean-up is not finished"
    await world.stores.graphs.remove(graph.job_id)
    await world.stores.results.mark_clean(graph.job_id)
    await world.storage.write(f"jobs/{graph.job_id}/outcomes/r/late.json", b"")
    world.now += 2 * DAY_MS
    assert await world.sweep.sweep() == 2
    assert [path.split("/")[0] for path in world.storage.files] == ["results"]


async def test_nothing_is_removed_when_records_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.accept()
    await world.storage.write(f"jobs/{world.ids.job()}/graph/1.json", b"")
    before = dict(world.storage.files)
    world.now += 2 * DAY_MS

    async def fail(_self: object) -> None:
        raise Unavailable("the coordinator does not answer")

    monkeypatch.setattr(JobGraphStore, "records", fail)
    with pytest.raises(Unavailable):
        await world.sweep.sweep()
    world.storage.fail_next("modified")
    with pytest.raises(StorageUnavailable):
        await world.sweep.sweep()
    assert world.storage.files == before


async def test_a_job_that_cannot_be_loaded_keeps_all_its_files(world: World) -> None:
    graph, damaged = await world.accept(), await world.accept()
    for job_id in (graph.job_id, damaged.job_id):
        await world.storage.write(f"jobs/{job_id}/graph/copy.json", b"")
    coordinator = world.stores.graphs._coordinator
    found = await coordinator.read(keys.job(damaged.job_id))
    assert found is not None
    await coordinator.commit([Put(keys.job(damaged.job_id), b"\0", found.version)])
    world.quarantined.add(graph.job_id)
    world.now += 2 * DAY_MS
    assert await world.sweep.sweep() == 0
    world.quarantined.clear()
    assert await world.sweep.sweep() == 1


async def test_files_of_a_live_job_are_kept_even_without_a_record(world: World) -> None:
    await world.accept()
    live = world.ids.job()
    await world.storage.write(f"blobs/{live}/{BLOB}", b"")
    world.live.add(live)
    world.now += 2 * DAY_MS
    assert await world.sweep.sweep() == 0


async def test_a_submission_during_a_sweep_loses_no_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep looks at an old file of a crashed submission while the job is submitted again."""
    await world.accept()
    graph = await world.accept()
    await world.stores.graphs.remove(graph.job_id)
    blob = f"blobs/{graph.job_id}/{BLOB}"
    world.now += 2 * DAY_MS
    decide = world.sweep._known_jobs

    async def decide_then_submit(*, uploaded: bool) -> object:
        known = await decide()
        if uploaded:
            await world.storage.write(blob, b"")
        else:
            again = msgspec.structs.replace(graph, name="again")
            await world.stores.graphs.put(again, submitted_at=world.now)
        return known

    for uploaded in (True, False):
        monkeypatch.setattr(
            world.sweep, "_known_jobs", lambda up=uploaded: decide_then_submit(uploaded=up)
        )
        assert await world.sweep.sweep() == 0
        assert blob in world.storage.files
        world.now += 2 * DAY_MS
