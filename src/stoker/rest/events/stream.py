"""The event stream: everything that is live, over one connection.

A browser allows six connections to a server, and a page has several tabs, so one stream carries
several topics. It begins with a greeting that names the leader, then sends the present state of its
topics, then their changes. What continues over a new connection is the event log, by the id of the
last event; everything else begins with its present state again, so nothing can be missed.

A stream ends when its master ends or cannot reach a leading dispatcher, as is usual when the leader
changes. The client then connects again and so reaches the new leader.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from stoker.api.events import EventGapAnswer, JobProgressEvent, StreamStart
from stoker.core.errors import JobNotFound, JobQuarantined, StokerError
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.events.event import EventId
from stoker.gateways.dispatcher import ClusterOverview, DispatcherGateway
from stoker.rest.events.feed import POLL_SECONDS, Change, FellBehind, encode_event
from stoker.rest.events.topics import Topics
from stoker.rest.job_list.deltas import JobList
from stoker.rest.services import RestServices

KEEP_ALIVE_SECONDS = 15.0
PATIENCE_SECONDS = 30.0
"""A reader that takes nothing for so long loses its stream, and connects again if it lives."""
_RETRY = b"retry: 1000\n\n"
_KEEP_ALIVE = b": alive\n\n"


async def stream_events(
    services: RestServices, topics: Topics, *, owner: str | None, after: EventId | None
) -> AsyncGenerator[bytes, None]:
    """Send until the client leaves, a call fails, or all jobs that alone are followed have ended.

    `owner`: whose jobs alone the client may see; None for all.
    """
    yield _RETRY
    stream = _Stream(services, topics, owner, after)
    loop = asyncio.get_running_loop()
    sent_at = loop.time()
    try:
        yield await stream.begin()
        while not stream.is_over:
            pieces = await stream.changes()
            if not pieces and loop.time() - sent_at >= KEEP_ALIVE_SECONDS:
                pieces = _KEEP_ALIVE
            if pieces:
                yield pieces
                sent_at = loop.time()
            if not stream.is_over:
                await asyncio.sleep(POLL_SECONDS)
    except StokerError:
        return


@dataclass
class _Stream:
    services: RestServices
    topics: Topics
    owner: str | None
    position: EventId | None
    """The last event of the log that was sent, or behind which the client continues."""
    epoch: int | None = None
    change: int = 0
    """Number of the last change of the feed that was sent."""
    progress: dict[JobId, JobProgressEvent | None] = field(default_factory=dict)
    """What was sent last of each job that is followed and has not ended."""

    def __post_init__(self) -> None:
        self.progress = dict.fromkeys(self.topics.job_ids)

    @property
    def is_over(self) -> bool:
        has_others = self.topics.of_feed or self.topics.log
        return not has_others and not self.progress

    async def begin(self) -> bytes:
        dispatcher = await self.services.dispatcher()
        newest = await self.services.log_feed.newest(dispatcher) if self.topics.log else None
        if self.position is None:
            self.position = newest
        return self._greeting(newest) + await self._state_of_feed()

    def _greeting(self, newest: EventId | None) -> bytes:
        self.epoch = self.services.epoch()
        start = StreamStart(
            server_time=self.services.clock(),
            epoch=self.epoch,
            leader=self.services.leader_url(),
            topics=self.topics.names(),
            last=str(newest) if newest is not None and newest.number else None,
        )
        return encode_event("hello", start)

    async def changes(self) -> bytes:
        dispatcher = await self.services.dispatcher()
        pieces = []
        if self.services.epoch() != self.epoch:
            pieces.append(self._greeting(self.position))
        if self.topics.of_feed:
            pieces.append(await self._changes_of_feed())
        if self.position is not None and self.topics.log:
            pieces.append(await self._new_events(self.position, dispatcher))
        for job_id in tuple(self.progress):
            pieces.append(await self._progress_of(job_id, dispatcher))
        return b"".join(pieces)

    async def _state_of_feed(self) -> bytes:
        if not self.topics.of_feed:
            return b""
        self.change, state = await self.services.feed.begin(self._look)
        return self._shown(state)

    async def _changes_of_feed(self) -> bytes:
        try:
            self.change, changes = await self.services.feed.changes_after(self.change, self._look)
        except FellBehind:
            gap = EventGapAnswer(topic="jobs", reason="slow-reader")
            return encode_event("gap", gap) + await self._state_of_feed()
        return self._shown(changes)

    def _shown(self, changes: list[Change]) -> bytes:
        wanted = self.topics.of_feed
        return b"".join(
            change.content
            for change in changes
            if change.topic in wanted
            and (change.topic == "cluster" or self.owner in (None, change.owner))
        )

    async def _look(self) -> tuple[JobList, ClusterOverview]:
        dispatcher = await self.services.dispatcher()
        jobs = (await self.services.job_list_snapshot()).jobs
        return jobs, await dispatcher.cluster_overview()

    async def _new_events(self, position: EventId, dispatcher: DispatcherGateway) -> bytes:
        self.position, messages = await self.services.log_feed.after(position, dispatcher)
        return b"".join(
            message.content
            for message in messages
            if self.owner is None or message.owner in (None, self.owner)
        )

    async def _progress_of(self, job_id: JobId, dispatcher: DispatcherGateway) -> bytes:
        try:
            job = await dispatcher.job_details(job_id)
        except (JobNotFound, JobQuarantined):
            del self.progress[job_id]
            return encode_event("end", {"jid": job_id, "state": None})
        now = _progress(job)
        pieces = b"" if now == self.progress[job_id] else encode_event("progress", now)
        self.progress[job_id] = now
        if job.status.globally_terminal:
            del self.progress[job_id]
            pieces += encode_event("end", {"jid": job.job_id, "state": job.status})
        return pieces


def _progress(job: JobDetails) -> JobProgressEvent:
    progress = [region.current.progress for region in job.regions]
    return JobProgressEvent(
        jid=job.job_id,
        name=job.name,
        state=job.status,
        waiting=job.waiting,
        regions={region.id: region.current.state for region in job.regions},
        tasks_total=sum(each.tasks_total for each in progress),
        tasks_done=sum(each.tasks_done for each in progress),
        batches=sum(each.batches for each in progress),
        failures=len(job.failures),
    )
