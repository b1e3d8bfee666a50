"""The newest events of the log, found once for all streams that follow them.

Streams ask for what is new twice a second. The first one that is due reads it from the leader, and
the encoded events stay for a while, so that the others take them. A stream that is further behind,
because its client continues an earlier one, reads the log by itself until it has caught up.

Invariant: a stream sends every event behind its beginning once and in order, or tells of a gap.
"""

import asyncio
from collections import deque

from stoker.events.event import START, EventId
from stoker.events.query import EventPage, EventQuery
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.rest.events.feed import POLL_SECONDS
from stoker.rest.events.log_views import LogMessage, messages_of

PAGE = 500
MAX_KEPT = 2000


class LogFeed:
    def __init__(self, *, kept: int = MAX_KEPT) -> None:
        self._reading = asyncio.Lock()
        self._read_at: float | None = None
        self._floor = START
        """Everything behind this event is among the messages, as far as the log was read."""
        self._newest = START
        self._messages: deque[LogMessage] = deque()
        self._kept = kept

    async def newest(self, dispatcher: DispatcherGateway) -> EventId:
        """The newest event: where a stream begins that continues no earlier one."""
        await self._refresh(dispatcher)
        return self._newest

    async def after(
        self, position: EventId, dispatcher: DispatcherGateway
    ) -> tuple[EventId, list[LogMessage]]:
        """The messages behind the position, not always all of them, and the new position."""
        await self._refresh(dispatcher)
        if position >= self._floor:
            return max(position, self._newest), [
                each for each in self._messages if each.position > position
            ]
        query = EventQuery(after=position, oldest_first=True, limit=PAGE)
        page = await dispatcher.read_events(query)
        return _end_of(page, position), messages_of(page)

    async def _refresh(self, dispatcher: DispatcherGateway) -> None:
        """Read what is new, unless another stream has done so a moment ago."""
        loop = asyncio.get_running_loop()
        async with self._reading:
            if self._read_at is not None and loop.time() - self._read_at < POLL_SECONDS / 2:
                return
            if self._read_at is None:
                page = await dispatcher.read_events(EventQuery(limit=1))
                self._floor = self._newest = page.last or START
            else:
                await self._read_on(dispatcher)
            self._read_at = loop.time()

    async def _read_on(self, dispatcher: DispatcherGateway) -> None:
        query = EventQuery(after=self._newest, oldest_first=True, limit=PAGE)
        page = await dispatcher.read_events(query)
        self._messages.extend(messages_of(page))
        self._newest = _end_of(page, self._newest)
        while len(self._messages) > self._kept:
            self._floor = self._messages.popleft().position


def _end_of(page: EventPage, before: EventId) -> EventId:
    """Up to where the page has told everything."""
    if page.mark is not None:
        return page.mark
    told = [event.id for event in page.events]
    told += [EventId.parse(gap.before) for gap in page.gaps]
    return max([before, *told])
