"""What a process writes, kept up to a size: the beginning, a note about the gap, and the end."""

from collections import deque

TAIL_BYTES = 64 * 1024


class BoundedLog:
    """Says what is to be appended to a file that thereby never grows beyond its bounds.

    Nothing that was appended ever changes, so that a reader can go on from its last offset.
    """

    def __init__(self, limit: int, tail: int = TAIL_BYTES) -> None:
        self._room = limit
        self._tail: deque[bytes] = deque()
        self._tail_limit = tail
        self._held = 0
        self._dropped = 0
        self._full = False

    def feed(self, data: bytes) -> bytes:
        """The part that is to be appended now."""
        head, rest = data[: self._room], data[self._room :]
        self._room -= len(head)
        if not rest:
            return head
        self._hold(rest)
        if self._full:
            return head
        self._full = True
        return head + b"\n[stoker: this log is full; only its end will follow]\n"

    def finish(self) -> bytes:
        """What is to be appended when no more is expected; should more come, then once again."""
        note = f"[stoker: {self._dropped} bytes are left out here]\n" if self._dropped else ""
        end = note.encode() + b"".join(self._tail)
        self._tail.clear()
        self._held = self._dropped = 0
        return end

    def _hold(self, data: bytes) -> None:
        data, cut = data[-self._tail_limit :], max(0, len(data) - self._tail_limit)
        self._dropped += cut
        self._tail.append(data)
        self._held += len(data)
        while self._held > self._tail_limit:
            oldest = self._tail.popleft()
            excess = self._held - self._tail_limit
            if len(oldest) > excess:
                self._tail.appendleft(oldest[excess:])
            dropped = min(excess, len(oldest))
            self._held -= dropped
            self._dropped += dropped
