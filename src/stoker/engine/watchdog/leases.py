"""Until when work at a Spark server may go on, and whose time is over. Pure.

A guard is kept by the server's warden, for each session with a task: a task executor that is
frozen cannot end its work, nor can a runner that is dead.
"""

from pathlib import Path

import msgspec


class Guard(msgspec.Struct, frozen=True, kw_only=True, tag="guard"):
    """To the warden, at the start of a task and whenever its lease is renewed."""

    session_id: str
    until: float
    """A moment of the machine's monotonic clock."""
    runner: int = 0
    """The process of the task's code; 0 while there is none."""
    runner_started: int | None = None
    """By which it is known again, since the kernel gives its number to others later."""


class Release(msgspec.Struct, frozen=True, kw_only=True, tag="release"):
    """To the warden: nothing of the session is left that could do harm."""

    session_id: str


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """From the warden: the process of the server."""

    pid: int


ToWarden = Guard | Release


class Guards:
    def __init__(self) -> None:
        self._guards: dict[str, Guard] = {}

    def take(self, message: ToWarden) -> None:
        match message:
            case Guard():
                self._guards[message.session_id] = self._never_shorter(message)
            case Release():
                self._guards.pop(message.session_id, None)

    def seconds_left(self, now: float) -> float | None:
        """Until the first is over; None when there is none."""
        if not self._guards:
            return None
        return max(0.0, min(guard.until for guard in self._guards.values()) - now)

    def pop_over(self, now: float) -> list[Guard]:
        """Those whose time is over; they are told once."""
        over = [guard for guard in self._guards.values() if guard.until <= now]
        for guard in over:
            del self._guards[guard.session_id]
        return over

    def _never_shorter(self, guard: Guard) -> Guard:
        """Renewals may overtake each other."""
        former = self._guards.get(guard.session_id)
        if former is None or former.until <= guard.until:
            return guard
        return msgspec.structs.replace(guard, until=former.until)


def closed_mark(directory: Path, session_id: str) -> Path:
    """A file that a runner leaves when it has closed its session and ended all work in it."""
    return directory / session_id
