"""The changes of the cluster, found once for all clients that follow them.

To find what has changed, all jobs are compared with those of the last look. With ten thousand ended
jobs that takes milliseconds of the event loop, so it must not be done again for each client that
follows. One look is made for all, by whichever stream is due first, and the encoded changes stay
for a while, so that every stream can take them.

Invariant: a stream sends the state at some look, and then the changes of every later look in order.
A stream that has fallen behind the changes that are kept ends; its client connects again and begins
with the present state.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from stoker.api.control import ClusterEvent, JobEvent
from stoker.core.ids import JobId
from stoker.core.results import JobSummary
from stoker.gateways.dispatcher import ClusterOverview
from stoker.rest.job_list.deltas import JobList

POLL_SECONDS = 0.5
Look = Callable[[], Awaitable[tuple[JobList, ClusterOverview]]]
"""Asks the leading dispatcher for all jobs and for the figures of the cluster."""


class FellBehind(Exception):
    """The changes that a stream needs next are no longer kept."""


class ClusterFeed:
    def __init__(self, *, kept: int = 64) -> None:
        """`kept`: how many changes a stream may be behind."""
        self._looking = asyncio.Lock()
        self._looked_at: float | None = None
        self._number = 0
        """Number of the latest change."""
        self._changes: deque[bytes] = deque(maxlen=kept)
        self._known: dict[JobId, JobSummary] = {}
        self._live: tuple[JobSummary, ...] = ()
        self._cluster: ClusterOverview | None = None

    async def begin(self, look: Look) -> tuple[int, bytes]:
        """The number of the latest change, and the state after it as events."""
        await self._refresh(look)
        assert self._cluster is not None
        # The first events are the live jobs; a client gets the ended ones from the job list.
        events = [encode_event("job", _job(job)) for job in self._live]
        return self._number, b"".join([_cluster_event(self._cluster), *events])

    async def changes_after(self, number: int, look: Look) -> tuple[int, bytes]:
        """The number of the latest change, and all changes after the given one; maybe none.

        Raises FellBehind, or what `look` raises.
        """
        await self._refresh(look)
        missed = self._number - number
        if missed > len(self._changes):
            raise FellBehind
        return self._number, b"".join(tuple(self._changes)[len(self._changes) - missed :])

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
        pieces = [] if overview == self._cluster else [_cluster_event(overview)]
        known = {job.job_id: job for job in jobs.all_jobs()}
        pieces += [
            encode_event("job", _job(job)) for job in changed_jobs(self._known, known.values())
        ]
        gone = self._known.keys() - known.keys()
        pieces += [encode_event("removed", {"jid": job_id}) for job_id in sorted(gone)]
        self._known, self._live, self._cluster = known, tuple(jobs.live.values()), overview
        if pieces:
            self._number += 1
            self._changes.append(b"".join(pieces))


def encode_event(name: str, content: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(content))


def changed_jobs(before: dict[JobId, JobSummary], jobs: Iterable[JobSummary]) -> list[JobSummary]:
    """Jobs that are new or have changed, oldest change first."""
    found = [job for job in jobs if before.get(job.job_id) != job]
    return sorted(found, key=lambda job: job.last_change)


def _cluster_event(overview: ClusterOverview) -> bytes:
    return encode_event(
        "cluster",
        ClusterEvent(
            taskmanagers=overview.resources.task_executors,
            slots_total=overview.resources.slots_total,
            slots_available=overview.resources.slots_free,
            jobs_running=overview.jobs_running,
            jobs_finished=overview.jobs_finished,
            jobs_cancelled=overview.jobs_cancelled,
            jobs_failed=overview.jobs_failed,
        ),
    )


def _job(job: JobSummary) -> JobEvent:
    return JobEvent(
        jid=job.job_id,
        name=job.name,
        state=job.status,
        last_modification=job.last_change,
        tasks={state.value: count for state, count in job.tasks.items()},
    )
