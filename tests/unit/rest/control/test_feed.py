"""Changes of the cluster for all who follow them."""

import asyncio
from typing import Any

import pytest

from builders import virtual
from stoker.core.states import JobStatus
from stoker.rest.control import feed
from stoker.rest.control.events import cluster_events
from stoker.rest.control.feed import ClusterFeed, FellBehind
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


@virtual
async def test_the_jobs_are_compared_once_for_all_who_follow() -> None:
    master = Master()
    services = master.services
    look, changes = Looks(services), ClusterFeed()
    begun = await asyncio.gather(*(changes.begin(look) for _ in range(50)))
    assert look.count == 1
    assert len(set(begun)) == 1
    for _ in range(3):
        await asyncio.sleep(feed.POLL_SECONDS)
        master.dispatcher.set_status(RUNNING, JobStatus.RUNNING)
        await asyncio.gather(*(changes.changes_after(begun[0][0], look) for _ in range(50)))
    assert look.count == 4


@virtual
async def test_each_stream_gets_the_state_and_then_every_change_in_order() -> None:
    master = Master()
    look, changes = Looks(master.services), ClusterFeed()
    first, state = await changes.begin(look)
    assert state.count(b"event: cluster") == 1
    assert RUNNING.encode() in state
    assert FINISHED.encode() not in state, "a client gets ended jobs from the job list"
    for status in (JobStatus.FAILING, JobStatus.FAILED):
        await asyncio.sleep(feed.POLL_SECONDS)
        master.dispatcher.set_status(RUNNING, status)
        number, _ = await changes.changes_after(first, look)
    _, pieces = await changes.changes_after(first, look)
    assert pieces.index(b'"FAILING"') < pieces.index(b'"FAILED"')
    assert await changes.changes_after(number, look) == (number, b"")


@virtual
async def test_a_stream_that_fell_behind_ends() -> None:
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


@virtual
async def test_a_stream_shows_a_job_that_ends_and_one_that_is_forgotten() -> None:
    master = Master()
    stream = cluster_events(master.services)
    sent = [await anext(stream), await anext(stream)]
    assert sent[0].startswith(b"retry:")
    master.dispatcher.set_status(RUNNING, JobStatus.FINISHED)
    assert b'"state":"FINISHED"' in await anext(stream)
    del master.dispatcher.jobs[FINISHED]
    assert b"event: removed" in await anext(stream)
    await stream.aclose()
