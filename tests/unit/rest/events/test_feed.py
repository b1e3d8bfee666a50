"""Changes of the cluster for all who follow them."""

import asyncio
from typing import Any

import pytest

from builders import virtual
from stoker.core.states import JobStatus
from stoker.rest.events import feed
from stoker.rest.events.feed import Change, ClusterFeed, FellBehind
from stoker.rest.services import RestServices
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import FINISHED, RUNNING


class Looks:
    """Counts how often the jobs are compared."""

    def __init__(self, services: RestServices) -> None:
        self.count = 0
        self._services = services

    async def __call__(self) -> Any:
        self.count += 1
        dispatcher = await self._services.dispatcher()
        jobs = (await self._services.job_list_snapshot()).jobs
        return jobs, await dispatcher.cluster_overview()


def joined(changes: list[Change]) -> bytes:
    return b"".join(change.content for change in changes)


@virtual
async def test_the_jobs_are_compared_once_for_all_who_follow() -> None:
    master = Master()
    services = master.services
    look, changes = Looks(services), ClusterFeed()
    begun = await asyncio.gather(*(changes.begin(look) for _ in range(50)))
    assert look.count == 1
    assert all(each == begun[0] for each in begun)
    for _ in range(3):
        await asyncio.sleep(feed.POLL_SECONDS)
        master.dispatcher.set_status(RUNNING, JobStatus.RUNNING)
        await asyncio.gather(*(changes.changes_after(begun[0][0], look) for _ in range(50)))
    assert look.count == 4


@virtual
async def test_each_stream_gets_the_state_and_then_every_change_in_order() -> None:
    master = Master()
    look, changes = Looks(master.services), ClusterFeed()
    first, begun = await changes.begin(look)
    state = joined(begun)
    assert state.count(b"event: cluster") == 1
    assert RUNNING.encode() in state
    assert FINISHED.encode() not in state, "a client gets ended jobs from the job list"
    for status in (JobStatus.FAILING, JobStatus.FAILED):
        await asyncio.sleep(feed.POLL_SECONDS)
        master.dispatcher.set_status(RUNNING, status)
        number, _ = await changes.changes_after(first, look)
    _, found = await changes.changes_after(first, look)
    pieces = joined(found)
    assert pieces.index(b'"FAILING"') < pieces.index(b'"FAILED"')
    assert await changes.changes_after(number, look) == (number, [])


@virtual
async def test_a_stream_that_fell_behind_is_told() -> None:
    master = Master()
    look, changes = Looks(master.services), ClusterFeed(kept=2)
    first, _ = await changes.begin(look)
    latest = first
    for status in (JobStatus.FAILING, JobStatus.RUNNING, JobStatus.FAILING):
        await asyncio.sleep(feed.POLL_SECONDS)
        master.dispatcher.set_status(RUNNING, status)
        latest, pieces = await changes.changes_after(latest, look)
        assert pieces
    with pytest.raises(FellBehind):
        await changes.changes_after(first, look)
