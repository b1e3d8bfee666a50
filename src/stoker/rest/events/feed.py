"""The changes of the cluster, found once for all clients that follow them.

To find what has changed, all jobs are compared with those of the last look. With ten thousand ended
jobs that takes milliseconds of the event loop, so it must not be done again for each client that
follows. One look is made for all, by whichever stream is due first, and the encoded changes stay
for a while, so that every stream can take them.

Invariant: a stream sends the state at some look, and then the changes of every later look in order.
A stream that has fallen behind the changes that are kept is told so, and begins again with the
present state.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec

from stoker.api.events import ClusterEvent, JobEvent
from stoker.core.ids import JobId
from stoker.core.results import JobSummary
from stoker.gateways.dispatcher import ClusterOverview
from stoker.rest.job_list.deltas import JobList

POLL_SECONDS = 0.5
Topic = Literal["jobs", "cluster"]
Look = Callable[[], Awaitable[tuple[JobList, ClusterOverview]]]
"""Asks the leading dispatcher for all jobs and for the figures of the cluster."""


class FellBehind(Exception):
    """The changes that a stream needs next are no longer kept."""


class Change(NamedTuple):
    """A part of the stream, and who may see it."""

    topic: Topic
    owner: str
    """Owner of the job; empty for the cluster."""
    content: bytes


class ClusterFeed:
    def __init__(self, *, kept: int = 64) -> None:
        """`kept`: how many changes a stream may be behind."""
        self._looking = asyncio.Lock()
        self._looked_at: float | None = None
        self._number = 0
        """Number of the latest change."""
        self._changes: deque[tuple[Change, ...]] = deque(maxlen=kept)
        self._known: dict[JobId, JobSummary] = {}
        self._live: tuple[JobSummary, ...] = ()
        self._cluster: ClusterOverview | None = None

    async def begin(self, look: Look) -> tuple[int, list[Change]]:
        """The number of the latest change, and the state after it."""
        await self._refresh(look)
        assert self._cluster is not None
        # The first events are the live jobs; a client gets the ended ones from the job list.
        return self._number, [_of_cluster(self._cluster), *map(_of_job, self._live)]

    async def changes_after(self, number: int, look: Look) -> tuple[int, list[Change]]:
        """The number of the latest change, and all changes after the given one; maybe none.

        Raises FellBehind, or what `look` raises.
        """
        await self._refresh(look)
        missed = self._number - number
        if missed > len(self._changes):
            raise FellBehind
        recent = islice(self._changes, len(self._changes) - missed, None)
        return self._number, [change for changes in recent for change in changes]

    async def _refresh(self, look: Look) -> None:
        """Look, unless another stream has done so a moment ago."""
        loop = asyncio.get_running_loop()
        async with self._looking:
            if self._looked_at is not None and loop.time() - self._looked_at < POLL_SECONDS / 2:
                return
            began = loop.time()
            jobs, overview = await look()
            is_first, self._looked_at = self._looked_at is None, began
            self._add(jobs, overview)
            if is_first:
                # Compared with nothing, every job is a change.
                self._changes.clear()
                self._number = 0

    def _add(self, jobs: JobList, overview: ClusterOverview) -> None:
        changes = [] if overview == self._cluster else [_of_cluster(overview)]
        known = {job.job_id: job for job in jobs.all_jobs()}
        changes += map(_of_job, changed_jobs(self._known, known.values()))
        gone = self._known.keys() - known.keys()
        changes += [_of_removed(self._known[job_id]) for job_id in sorted(gone)]
        self._known, self._live, self._cluster = known, tuple(jobs.live.values()), overview
        if changes:
            self._number += 1
            self._changes.append(tuple(changes))


def encode_event(name: str, content: Any, *, event_id: str | None = None) -> bytes:
    """A message of the stream. A client that connects again names the last id that it got."""
    head = b"" if event_id is None else b"id: %s\n" % event_id.encode()
    return b"%sevent: %s\ndata: %s\n\n" % (head, name.encode(), msgspec.json.encode(content))


def changed_jobs(before: dict[JobId, JobSummary], jobs: Iterable[JobSummary]) -> list[JobSummary]:
    """Jobs that are new or have changed, oldest change first."""
    found = [job for job in jobs if before.get(job.job_id) != job]
    return sorted(found, key=lambda job: job.last_change)


def _of_cluster(overview: ClusterOverview) -> Change:
    content = ClusterEvent(
        taskmanagers=overview.resources.task_executors,
        slots_total=overview.resources.slots_total,
        slots_available=overview.resources.slots_free,
        jobs_running=overview.jobs_running,
        jobs_finished=overview.jobs_finished,
        jobs_cancelled=overview.jobs_cancelled,
        jobs_failed=overview.jobs_failed,
    )
    return Change("cluster", "", encode_event("cluster", content))


def _of_job(job: JobSummary) -> Change:
    content = JobEvent(
        jid=job.job_id,
        name=job.name,
        state=job.status,
        last_modification=job.last_change,
        tasks={state.value: count for state, count in job.tasks.items()},
    )
    return Change("jobs", job.owner, encode_event("job", content))


def _of_removed(job: JobSummary) -> Change:
    return Change("jobs", job.owner, encode_event("removed", {"jid": job.job_id}))
