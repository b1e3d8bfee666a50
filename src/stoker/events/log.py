"""The event log of a leading master: it writes what was recorded, and answers questions.

Nobody waits for it. Events that come within one interval are written together. While the storage or
the coordinator is away the log tries again, and the events wait in memory, as many as the intake
holds. Whatever goes wrong here stays here: jobs never notice.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final

from stoker.aio.clock import WallClock
from stoker.aio.retry import Backoff
from stoker.aio.scope import TaskScope
from stoker.core.errors import CoordinatorUnavailable, Fenced, SessionExpired, StokerError
from stoker.core.ids import Ids
from stoker.events.event import EventId, EventKind
from stoker.events.intake import EventIntake, EventRecorder
from stoker.events.missing import CLOCK_MARGIN, JobFacts, missing_events
from stoker.events.options import EventOptions
from stoker.events.query import EventPage, EventQuery, answer, parts_of
from stoker.events.store import EventStore
from stoker.ha.leadership import Leadership
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

STEP_SECONDS: Final = 30.0
"""A write that takes longer is tried again: a storage may hang without an error."""
RETRIES: Final = Backoff(initial=timedelta(seconds=0.5), maximum=timedelta(seconds=5))
FORGET_SECONDS: Final = 600.0
LAST_WRITE_SECONDS: Final = 1.0
"""How long a leader that ends tries to write the events that it still has."""

ListJobs = Callable[[], Iterable[JobFacts]]
"""All jobs that the leader knows, live and ended, at the moment of the call."""


class EventLog:
    """Lives as long as one leadership of the dispatcher."""

    def __init__(
        self,
        leadership: Leadership,
        storage: Storage,
        ids: Ids,
        *,
        intake: EventIntake,
        options: EventOptions,
        wall_clock: WallClock,
    ) -> None:
        self.store = EventStore(leadership, storage, ids)
        self.epoch = leadership.token.epoch
        self._grant = leadership.grant
        self.record = EventRecorder(intake, self.epoch, wall_clock)
        self._intake = intake
        self._options = options
        self._wall_clock = wall_clock
        self._is_settled = False
        """Whether every submission and end that the leader knows is recorded."""
        self._forgot_at: float | None = None
        self._failures = 0
        self._is_storage_ours = False

    async def run(self, jobs: ListJobs, *, is_storage_ours: bool) -> None:
        """Write until cancelled or until the leadership is over, and then once more.

        In a storage of another cluster nothing is deleted to which this one has no pointer.
        """
        self._is_storage_ours = is_storage_ours
        try:
            async with TaskScope("events") as scope:
                # A leader that hands over revokes its grant and then lets others lead: the last
                # write has to come in between, while the other parts are still closing.
                over = scope.spawn("revoked", self._grant.wait_until_revoked())
                writing = scope.spawn("write", self._write(jobs))
                await asyncio.wait({over, writing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._write_last()

    async def _write(self, jobs: ListJobs) -> None:
        while True:
            try:
                async with asyncio.timeout(STEP_SECONDS):
                    await self._step(jobs)
                self._failures = 0
            except (Fenced, SessionExpired):
                return
            except (StokerError, TimeoutError) as error:
                if not self._failures:
                    reason = str(error) or "storage or coordinator do not answer"
                    log.warning("events wait in memory until they can be written: %s", reason)
                await asyncio.sleep(RETRIES.delay(self._failures).total_seconds())
                self._failures += 1
            # The border between insight and jobs: a fault here harms the event log only.
            except Exception:
                log.exception("the event log failed unexpectedly")
                await asyncio.sleep(FORGET_SECONDS)

    async def _step(self, jobs: ListJobs) -> None:
        if self.store.state is None:
            await self.store.load()
        await self._flush()
        if self._intake.dropped.count:
            self._report_dropped()
        elif not self._is_settled:
            await self._add_missing(jobs)
        elif self._is_time_to_forget():
            await self.store.forget(self._wall_clock(), self._options)
            if self._is_storage_ours:
                await self.store.remove_orphans(self._wall_clock())
        else:
            await self._wait_for_events()

    async def _wait_for_events(self) -> None:
        """Wait until there are events, and then for those that come soon after them."""
        state = self.store.state
        assert state is not None
        try:
            async with asyncio.timeout(STEP_SECONDS / 2):
                await self._intake.recorded.wait_until(
                    lambda newest: newest is not None and newest > state.last
                )
        except TimeoutError:
            return
        await asyncio.sleep(self._options.flush_interval.total_seconds())

    async def _flush(self) -> None:
        state = self.store.state
        assert state is not None
        is_settled = self._is_settled and not self._intake.dropped.count
        settled = self._wall_clock() if is_settled else state.settled
        events = self._intake.take(self.epoch)
        if not events:
            return
        try:
            await self.store.append(events, settled=settled)
        except BaseException:
            # They may have been written all the same; the store leaves out what it has.
            self._intake.put_back(events)
            raise

    def _report_dropped(self) -> None:
        dropped = self._intake.take_dropped()
        self._is_settled = False
        log.warning("%d events were dropped", dropped.count)
        self.record(
            EventKind.EVENTS_DROPPED,
            f"{dropped.count} events were dropped: they could not be written in time",
            data={"count": dropped.count, "since": dropped.since},
        )

    async def _add_missing(self, jobs: ListJobs) -> None:
        """Record the submissions and ends of jobs that are not in the log."""
        facts, waiting = list(jobs()), self._intake.waiting()
        state = self.store.state
        assert state is not None
        oldest = state.settled - CLOCK_MARGIN
        logged = list(waiting)
        for part in parts_of(state):
            if part.segment is None or part.segment.until >= oldest:
                logged.extend(await self.store.read(part) or ())
        # What was recorded since the first line is about jobs that are not among the facts, or is
        # among what waits now.
        logged.extend(self._intake.waiting())
        for event in missing_events(facts, logged, settled=state.settled):
            self.record(event.kind, event.text, about=event.about, at=event.at, data={"late": True})
        self._is_settled = True

    def _is_time_to_forget(self) -> bool:
        now = asyncio.get_running_loop().time()
        if self._forgot_at is not None and now - self._forgot_at < FORGET_SECONDS:
            return False
        self._forgot_at = now
        return True

    async def _write_last(self) -> None:
        """A leader that hands over writes what it has; one that was replaced cannot any more."""
        try:
            async with asyncio.timeout(LAST_WRITE_SECONDS):
                events = self._intake.take(self.epoch)
                if events and self.store.state is not None:
                    await self.store.append_last(events)
        except (StokerError, TimeoutError) as error:
            log.info("the last events were not written: %s", error)

    async def read(self, query: EventQuery) -> EventPage:
        """Events that are on record. Raises what the storage raises."""
        state = self.store.state
        if state is None:
            raise CoordinatorUnavailable("the event log is not read yet; try again")
        return await answer(query, state, self.store.read)

    @property
    def last(self) -> EventId | None:
        """The newest event on record."""
        state = self.store.state
        return None if state is None or state.last.number == 0 else state.last
