"""Snapshots of the job list, shared by concurrent requests.

Dashboards and scripts ask for all jobs every few seconds, and the response may have megabytes.
When each request made its own, no processor time was left for submissions: with a thousand live
jobs and 50 requests a second, a master accepted three jobs a second. So a snapshot asks the
dispatcher once, by a delta, and makes each response body once; the cost of a list does not grow
with the number of clients that ask at the same time.

Invariant: no request is answered from a snapshot that began before the request arrived. A job is in
every list that is requested after its acceptance, whoever submitted it, so a client that has just
submitted one needs no special treatment.

Order: a request that arrives while a snapshot is in progress waits for the next one, together with
all that arrive until then. The more the last snapshot cost, the later the next one begins, so that
lists take at most a twentieth of the time from everything else in this process, unless a snapshot
costs more than a twentieth of `MAX_PAUSE_SECONDS`.

Price: a request may wait up to `MAX_PAUSE_SECONDS` longer under load, and one copy of the list and
its encoded rows stays in memory. docs/decisions/job-list-snapshots.md has the figures.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from stoker.aio.clock import WallClock
from stoker.core.values import Millis
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.rest.http import compression
from stoker.rest.job_list.deltas import JobList
from stoker.rest.job_list.query import JobQuery, select_page
from stoker.rest.job_list.rows import json_array
from stoker.rest.jobs.job_views import job_ids

FindDispatcher = Callable[[], Awaitable[DispatcherGateway]]
"""Finds the leading dispatcher; raises NoLeader at once when none is known."""

PAUSE_FACTOR = 20
"""Pause between the beginnings of two snapshots, as a multiple of the cost of the first one."""
MAX_PAUSE_SECONDS = 0.05
MAX_JOINED_BYTES = compression.MAX_BYTES
"""A body of up to this size is one piece, so that it can be compressed."""
_AROUND = (b'{"jobs":', b"}")
_encode = msgspec.json.Encoder().encode


@dataclass
class Throttle:
    """Limits how soon the next snapshot may begin, by what the last one cost."""

    began_at: float = -MAX_PAUSE_SECONDS
    spent_seconds: float = 0.0

    def begin(self, now: float) -> None:
        self.began_at, self.spent_seconds = now, 0.0

    def spend(self, seconds: float) -> None:
        self.spent_seconds += seconds

    @property
    def next_start(self) -> float:
        return self.began_at + min(MAX_PAUSE_SECONDS, self.spent_seconds * PAUSE_FACTOR)


class JobListSnapshot:
    """The jobs at one moment. Each response body is made once, at its first use."""

    def __init__(self, jobs: JobList, now: Millis, throttle: Throttle) -> None:
        self.jobs = jobs
        self._now = now
        self._throttle = throttle
        self._bodies: dict[JobQuery | tuple[str, str | None], tuple[bytes, ...]] = {}

    def body(self, query: JobQuery) -> tuple[bytes, ...]:
        """The list in JSON; a long one in several pieces, which all responses share."""
        return self._make_once(query, lambda: self._encode_list(query))

    def ids_body(self, owner: str | None = None) -> tuple[bytes, ...]:
        """The body that has only the id and the state of each job, or of each job of this owner."""

        def encode() -> tuple[bytes, ...]:
            jobs = self.jobs.all_jobs()
            wanted = jobs if owner is None else [job for job in jobs if job.owner == owner]
            return (_encode(job_ids(wanted)),)

        return self._make_once(("ids", owner), encode)

    def _make_once(
        self, key: JobQuery | tuple[str, str | None], make: Callable[[], tuple[bytes, ...]]
    ) -> tuple[bytes, ...]:
        found = self._bodies.get(key)
        if found is None:
            loop = asyncio.get_running_loop()
            begin = loop.time()
            found = self._bodies[key] = make()
            self._throttle.spend(loop.time() - begin)
        return found

    def _encode_list(self, query: JobQuery) -> tuple[bytes, ...]:
        if query.is_default:
            pieces = json_array(self.jobs.encode_all(self._now), *_AROUND)
            return pieces if sum(map(len, pieces)) > MAX_JOINED_BYTES else (b"".join(pieces),)
        jobs = self.jobs.live_jobs() if query.wants_only_live else self.jobs.all_jobs()
        page, total = select_page(jobs, query, self._now)
        rows = self.jobs.encode(page, self._now, with_owner=query.shows_owner)
        if query.is_plain:
            return (b'{"jobs":%b}' % rows,)
        return (b'{"jobs":%b,"total":%d}' % (rows, total),)


class SharedSnapshots:
    """Takes one snapshot at a time for all requests that wait for it."""

    def __init__(self, throttle: Throttle | None = None) -> None:
        self._jobs = JobList()
        self._throttle = throttle or Throttle()
        self._next: asyncio.Task[JobListSnapshot] | None = None
        """The snapshot that has not begun yet, if requests wait for it."""
        self._last_begun = 0
        self._last_applied = 0
        """Number of the newest snapshot whose delta was applied. Deltas of earlier snapshots are
        dropped, even if another leader sent them."""

    async def take(self, find_dispatcher: FindDispatcher, clock: WallClock) -> JobListSnapshot:
        """A snapshot that begins after this call; the first one after a quiet time at once."""
        if self._next is None:
            self._next = asyncio.create_task(self._take(find_dispatcher, clock), name="job-list")
            self._next.add_done_callback(_retrieve_failure)
        # A request that is cancelled does not cancel the snapshot of the others.
        return await asyncio.shield(self._next)

    async def _take(self, find_dispatcher: FindDispatcher, clock: WallClock) -> JobListSnapshot:
        loop = asyncio.get_running_loop()
        if (pause := self._throttle.next_start - loop.time()) > 0:
            await asyncio.sleep(pause)
        # Requests that arrive from here on wait for another snapshot.
        self._next = None
        self._throttle.begin(loop.time())
        self._last_begun = number = self._last_begun + 1
        delta = await self._jobs.fetch_delta(await find_dispatcher())
        begin = loop.time()
        if number > self._last_applied:
            self._last_applied = number
            self._jobs.apply(delta)
        self._throttle.spend(loop.time() - begin)
        return JobListSnapshot(self._jobs, clock(), self._throttle)


def _retrieve_failure(snapshot: "asyncio.Task[JobListSnapshot]") -> None:
    """Prevents asyncio's warning about a failure that no request waits for any more."""
    if not snapshot.cancelled():
        snapshot.exception()
