"""Where events are recorded: in memory, at once, and without ever waiting or failing.

The parts of a leading master record what they do in the middle of their turns, so recording costs
next to nothing; the event log writes the events later, many at once. What is recorded faster than
it can be written, because storage or coordinator are away, is dropped and counted: jobs go on.

Invariant: within one epoch, ids are given out without a hole and in the order of the calls. Only
the leader of the newest epoch records; the events of earlier ones can no longer be written by
anybody.
"""

from collections import deque
from dataclasses import dataclass

from stoker.aio.clock import WallClock
from stoker.aio.latest import Latest
from stoker.core.values import Millis
from stoker.events.event import Data, EventId, EventKind, LoggedEvent, Subject, make_event

MAX_WAITING = 10_000
"""Events that wait to be written; with more, the newest are dropped."""


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """Events that were dropped and not reported yet."""

    count: int = 0
    since: Millis = 0


class EventIntake:
    """The events of one process that are not written yet. All its leading parts share it."""

    def __init__(self, *, max_waiting: int = MAX_WAITING) -> None:
        self._max_waiting = max_waiting
        self._epoch = -1
        self._number = 0
        self._waiting: deque[LoggedEvent] = deque()
        self.recorded: Latest[EventId | None] = Latest(None)
        """Id of the newest event that was not dropped, written or not."""
        self.dropped = Dropped()

    def record(
        self, epoch: int, at: Millis, kind: EventKind, text: str, about: Subject | None, data: Data
    ) -> None:
        if epoch < self._epoch:
            return
        if epoch > self._epoch:
            self._begin(epoch)
        self._number += 1
        if len(self._waiting) >= self._max_waiting:
            self.dropped = Dropped(count=self.dropped.count + 1, since=self.dropped.since or at)
            return
        event = make_event(EventId(epoch, self._number), at, kind, text, about, data)
        self._waiting.append(event)
        self.recorded.set(event.id)

    def _begin(self, epoch: int) -> None:
        self._epoch, self._number = epoch, 0
        self._waiting.clear()
        self.dropped = Dropped()

    def take(self, epoch: int) -> list[LoggedEvent]:
        """The events of this epoch that wait; the caller writes them, or puts them back."""
        if epoch != self._epoch:
            return []
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def put_back(self, events: list[LoggedEvent]) -> None:
        """Events that were taken and may not have been written, oldest first."""
        if events and events[0].epoch == self._epoch:
            self._waiting.extendleft(reversed(events))

    def waiting(self) -> list[LoggedEvent]:
        return list(self._waiting)

    def take_dropped(self) -> Dropped:
        """What was dropped since the last call."""
        dropped, self.dropped = self.dropped, Dropped()
        return dropped


class EventRecorder:
    """Records the events of one leadership."""

    def __init__(self, intake: EventIntake, epoch: int, wall_clock: WallClock) -> None:
        self._intake = intake
        self._epoch = epoch
        self._wall_clock = wall_clock

    def __call__(
        self,
        kind: EventKind,
        text: str,
        *,
        about: Subject | None = None,
        at: Millis | None = None,
        data: Data | None = None,
    ) -> None:
        """Record an event of this moment, or of an earlier one that was found only now."""
        moment = self._wall_clock() if at is None else at
        self._intake.record(self._epoch, moment, kind, text, about, data or {})
