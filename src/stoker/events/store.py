"""The event log on record: fenced writes of the leader, and reads of all that was written.

Events are never changed: a segment is written before the index points to it, and deleted after the
index has forgotten it. Every write of a record checks the epoch in its transaction, so a leader
that was frozen cannot append behind its successor.

The store shows what is surely on record. After a write whose outcome is unknown it reads the
records before it writes again; events that turn out to be there already are not written twice.
"""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from stoker.core.errors import (
    CorruptContent,
    NotFound,
    StorageUnavailable,
    TooLarge,
)
from stoker.core.failpoints import failpoint
from stoker.core.ids import Ids
from stoker.core.values import Millis
from stoker.events.event import LoggedEvent
from stoker.events.layout import (
    EventIndex,
    LogState,
    RecentEvents,
    SegmentContent,
    index_of,
)
from stoker.events.options import EventOptions
from stoker.events.query import LogPart
from stoker.ha import keys
from stoker.ha.coordinator import Create, Op, Put, Versioned
from stoker.ha.leadership import Leadership
from stoker.ha.record import R, decode_record, encode
from stoker.ha.stores.fenced import commit_or_read_back
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

MAX_SEGMENT_BYTES: Final = 64 * 1024 * 1024
"""A larger file is no segment of ours."""
MAX_CACHED_SEGMENTS: Final = 4
_YOUNGEST_ORPHAN: Final = timedelta(minutes=10)
"""A segment without a pointer may be younger: its leader is about to write the index."""


@dataclass(frozen=True, kw_only=True)
class _Versions:
    """Versions of the records; None for one that does not exist."""

    recent: int | None
    index: int | None
    is_index_damaged: bool = False
    """The index on record cannot be understood and has to be replaced."""


class EventStore:
    """Writes under one leadership. The caller runs one writing method at a time."""

    def __init__(self, leadership: Leadership, storage: Storage, ids: Ids) -> None:
        self._leadership = leadership
        self._coordinator = leadership.coordinator
        self._storage = storage
        self._ids = ids
        self.state: LogState | None = None
        """What is on record; None before the first `load`."""
        self._versions: _Versions | None = None
        """None when the records must be read before the next write."""
        self._cached: OrderedDict[str, tuple[LoggedEvent, ...]] = OrderedDict()

    async def load(self) -> LogState:
        await self._coordinator.sync()
        recent_found = await self._coordinator.read(keys.RECENT_EVENTS)
        index_found = await self._coordinator.read(keys.EVENT_INDEX)
        recent = _decoded(recent_found, RecentEvents, keys.RECENT_EVENTS)
        index = _decoded(index_found, EventIndex, keys.EVENT_INDEX)
        is_index_damaged = index is None
        if index is None:
            index = await self._rebuilt_index()
        recent = recent or RecentEvents()
        self.state = LogState(recent=recent.events, settled=recent.settled, index=index)
        self._versions = _Versions(
            recent=None if recent_found is None else recent_found.version,
            index=None if index_found is None else index_found.version,
            is_index_damaged=is_index_damaged,
        )
        return self.state

    async def append(self, events: Sequence[LoggedEvent], *, settled: Millis) -> None:
        """Write the events behind the others; those that are there already are left out.

        Errors leave everything as it was, or the outcome unknown: call again with the same events.
        """
        state = await self._current()
        longer = replace(state.with_recent(events), settled=settled)
        if longer.is_due_for_a_segment:
            try:
                longer = await self._with_segment(longer)
            except StorageUnavailable as error:
                if longer.is_too_large:
                    raise
                log.warning("events stay at the coordinator for now: %s", error)
        await self._record(longer)

    async def append_last(self, events: Sequence[LoggedEvent]) -> None:
        """Write as the last act of a leadership, unless another leader has begun meanwhile."""
        state = await self._current()
        assert self._versions is not None
        longer = state.with_recent(events)
        if longer.is_too_large:
            raise StorageUnavailable("the last events of this leader are too many for one record")
        recent = encode(self._recent_record(longer))
        failpoint("events.before-record")
        await self._leadership.grant.commit_until_superseded(
            [_write(keys.RECENT_EVENTS, recent, self._versions.recent)]
        )

    async def forget(self, now: Millis, options: EventOptions) -> None:
        """Remove events that are too old or too many: first the pointers, then the files."""
        before = await self._current()
        shorter = before.without_old(now, options)
        if shorter is before:
            return
        failpoint("events.before-forgetting")
        await self._record(shorter)
        for segment in before.index.segments:
            if segment not in shorter.index.segments:
                await self._delete(segment.path)

    async def remove_orphans(self, now: Millis) -> None:
        """Delete old segments to which no index points, which a leader left that died meanwhile."""
        files = await self._storage.modified(keys.EVENTS_FOLDER)
        # The files were listed first, so what is recorded in between is seen to be pointed to.
        state = await self.load()
        known = {segment.path for segment in state.index.segments}
        oldest = now / 1000 - _YOUNGEST_ORPHAN.total_seconds()
        for path, modified in files.items():
            if path not in known and modified < oldest:
                self._leadership.grant.require_certainty()
                await self._delete(path)

    async def read(self, part: LogPart) -> tuple[LoggedEvent, ...] | None:
        """The events of a part; None when its file is missing or damaged."""
        if part.segment is None:
            return self.state.recent if self.state is not None else ()
        path = part.segment.path
        if path in self._cached:
            self._cached.move_to_end(path)
            return self._cached[path]
        try:
            events = await self._content(path)
        except (NotFound, CorruptContent, TooLarge) as error:
            log.warning("events cannot be shown: %s", error)
            return None
        self._remember(path, events)
        return events

    def _remember(self, path: str, events: tuple[LoggedEvent, ...]) -> None:
        """Keep the events of a segment in memory, of the last few only."""
        self._cached[path] = events
        while len(self._cached) > MAX_CACHED_SEGMENTS:
            self._cached.popitem(last=False)

    async def _current(self) -> LogState:
        if self.state is None or self._versions is None:
            return await self.load()
        return self.state

    async def _with_segment(self, state: LogState) -> LogState:
        first = state.recent[0].id
        content = encode(SegmentContent(events=state.recent))
        path = keys.event_segment(first.epoch, first.number, self._ids.nonce())
        failpoint("events.before-content")
        await self._storage.write(path, content)
        self._remember(path, state.recent)
        return state.with_segment(path, len(content))

    async def _record(self, state: LogState) -> None:
        """Write the records that differ from the present ones, in one transaction."""
        known, versions = self.state, self._versions
        assert known is not None
        assert versions is not None
        recent = encode(self._recent_record(state))
        index = encode(state.index)
        ops: list[Op] = [_write(keys.RECENT_EVENTS, recent, versions.recent)]
        has_new_index = (
            state.index != known.index or versions.index is None or versions.is_index_damaged
        )
        if has_new_index:
            ops.append(_write(keys.EVENT_INDEX, index, versions.index))
        self._versions = None
        failpoint("events.before-record")
        await commit_or_read_back(
            self._leadership,
            ops,
            key=keys.RECENT_EVENTS,
            is_ours=lambda found: found == recent,
        )
        failpoint("events.after-record")
        self.state = state
        self._versions = _Versions(
            recent=_next(versions.recent),
            index=_next(versions.index) if has_new_index else versions.index,
        )

    def _recent_record(self, state: LogState) -> RecentEvents:
        return RecentEvents(events=state.recent, settled=state.settled, nonce=self._ids.nonce())

    async def _delete(self, path: str) -> None:
        self._cached.pop(path, None)
        failpoint("events.before-removing-content")
        try:
            await self._storage.delete(path)
        except StorageUnavailable as error:
            log.warning("%s is left for the next leader to delete: %s", path, error)
        failpoint("events.after-removing-content")

    async def _content(self, path: str) -> tuple[LoggedEvent, ...]:
        content = await self._storage.read(path, limit=MAX_SEGMENT_BYTES)
        return decode_record(content, SegmentContent, path).events

    async def _rebuilt_index(self) -> EventIndex:
        """The index of the files, when its own record cannot be read."""
        found = []
        for path in await self._storage.list(keys.EVENTS_FOLDER):
            try:
                events = await self._content(path)
            except (NotFound, CorruptContent, TooLarge) as error:
                log.warning("a segment of events is left out: %s", error)
                continue
            if events:
                size = len(encode(SegmentContent(events=events)))
                whole = LogState(recent=events).with_segment(path, size)
                found.append(whole.index.segments[0])
        log.warning("the index of events was made again from %d files", len(found))
        return index_of(found)


def _write(key: str, value: bytes, version: int | None) -> Op:
    return Create(key, value) if version is None else Put(key, value, version)


def _next(version: int | None) -> int:
    return 0 if version is None else version + 1


def _decoded(found: Versioned | None, kind: type[R], key: str) -> R | None:
    """The record, an empty one if there is none; None for one that cannot be understood."""
    if found is None:
        return kind()
    try:
        return decode_record(found.value, kind, key)
    except CorruptContent as error:
        log.error("a record of the event log is replaced: %s", error)
        return None
