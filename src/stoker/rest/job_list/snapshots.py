"""Looks at the list of jobs, each shared by all who ask at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from stoker.aio.clock import WallClock
from stoker.core.values import Millis
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.rest.http import compression
from stoker.rest.job_list.deltas import JobList
from stoker.rest.job_list.query import JobQuery, chosen
from stoker.rest.job_list.rows import json_array
from stoker.rest.jobs.job_views import job_ids

FindDispatcher = Callable[[], Awaitable[DispatcherGateway]]
"""The leading dispatcher; NoLeader, at once, when none is known."""

REST_FACTOR = 20
"""After a look comes a pause of so many times what it took: however many ask, the list takes no
more than about a twentieth of the time from those who hand in jobs."""
LONGEST_PAUSE_SECONDS = 0.05
LONG = compression.MAXIMUM
"""What is shorter may be compressed, and is sent at once."""
_AROUND = (b'{"jobs":', b"}")
_encode = msgspec.json.Encoder().encode


@dataclass
class Pace:
    """How soon the next look may begin, by what the last one took."""

    begun: float = -LONGEST_PAUSE_SECONDS
    spent: float = 0.0

    def begin(self, now: float) -> None:
        self.begun, self.spent = now, 0.0

    def spend(self, seconds: float) -> None:
        self.spent += seconds

    @property
    def earliest(self) -> float:
        return self.begun + min(LONGEST_PAUSE_SECONDS, self.spent * REST_FACTOR)


class Look:
    """What was there at one moment; every answer that it gives is made once."""

    def __init__(self, jobs: JobList, now: Millis, pace: Pace) -> None:
        self.jobs = jobs
        self._now = now
        self._pace = pace
        self._bodies: dict[JobQuery | str, tuple[bytes, ...]] = {}

    def body(self, query: JobQuery) -> tuple[bytes, ...]:
        """In one piece unless it is long; the pieces are shared by all answers."""
        return self._once(query, lambda: self._made(query))

    def ids(self) -> tuple[bytes, ...]:
        """The body that tells nothing but ids and states."""
        return self._once("ids", lambda: (_encode(job_ids(self.jobs.all())),))

    def _once(
        self, key: JobQuery | str, make: Callable[[], tuple[bytes, ...]]
    ) -> tuple[bytes, ...]:
        found = self._bodies.get(key)
        if found is None:
            loop = asyncio.get_running_loop()
            begin = loop.time()
            found = self._bodies[key] = make()
            self._pace.spend(loop.time() - begin)
        return found

    def _made(self, query: JobQuery) -> tuple[bytes, ...]:
        if query.is_plain:
            pieces = json_array(self.jobs.pieces(self._now), *_AROUND)
            return pieces if sum(map(len, pieces)) > LONG else (b"".join(pieces),)
        jobs = self.jobs.living() if query.wants_living_alone else self.jobs.all()
        page, total = chosen(jobs, query, self._now)
        return (b'{"jobs":%b,"total":%d}' % (self.jobs.encoded(page, self._now), total),)


class JobLooks:
    """Nobody is shown what was there before they asked: a job that was accepted, by whomever, is
    in every list that is asked for afterwards.

    Who asks after a look has begun waits for the next one, together with all who come until then.
    The first one after a while does not wait.
    """

    def __init__(self, pace: Pace | None = None) -> None:
        self._jobs = JobList()
        self._pace = pace or Pace()
        self._next: asyncio.Task[Look] | None = None
        self._begun = 0
        self._latest = 0
        """The last one that was applied: what an earlier one brings after it is older, also when
        another leader has said it."""

    async def look(self, dispatcher: FindDispatcher, clock: WallClock) -> Look:
        if self._next is None:
            self._next = asyncio.create_task(self._look(dispatcher, clock), name="job-list")
            self._next.add_done_callback(_seen)
        # One who gives up does not give up for the others.
        return await asyncio.shield(self._next)

    async def _look(self, dispatcher: FindDispatcher, clock: WallClock) -> Look:
        loop = asyncio.get_running_loop()
        if (pause := self._pace.earliest - loop.time()) > 0:
            await asyncio.sleep(pause)
        self._next = None
        self._pace.begin(loop.time())
        self._begun = number = self._begun + 1
        news = await self._jobs.ask(await dispatcher())
        begin = loop.time()
        if number > self._latest:
            self._latest = number
            self._jobs.apply(news)
        self._pace.spend(loop.time() - begin)
        return Look(self._jobs, clock(), self._pace)


def _seen(look: "asyncio.Task[Look]") -> None:
    """A failure that nobody waits for any more is nobody's."""
    if not look.cancelled():
        look.exception()
