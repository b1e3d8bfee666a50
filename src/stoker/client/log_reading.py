"""How far the output of a job's attempts has been read."""

from stoker.api.logs import LogAnswer
from stoker.core.ids import AttemptId
from stoker.core.results import JobDetails


class LogReading:
    def __init__(self) -> None:
        self._offsets: dict[AttemptId, int] = {}
        self._complete: set[AttemptId] = set()

    def attempts_of(self, details: JobDetails) -> list[AttemptId]:
        """Those that may have written what was not read yet."""
        current = [region.current.attempt for region in details.regions]
        return [attempt for attempt in current if attempt and attempt not in self._complete]

    def offset(self, attempt: AttemptId) -> int:
        return self._offsets.get(attempt, 0)

    def taken(self, attempt: AttemptId, piece: LogAnswer) -> bytes:
        """The piece's content; empty when nothing more is there at the moment."""
        self._offsets[attempt] = piece.next_offset
        if piece.complete:
            self._complete.add(attempt)
        return piece.data
