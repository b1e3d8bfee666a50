"""Showing a job while it runs: as lines where nobody watches, or live at a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from stoker.cli.words import duration_text
from stoker.client.progress import views_of
from stoker.core.results import JobDetails

Say = Callable[[str], None]


class Display(Protocol):
    """Opened for the time of one job."""

    def show(self, details: JobDetails) -> None:
        """The job as it is now; called often."""

    def say(self, text: str) -> None:
        """A sentence that stays."""

    def set_aside(self) -> None:
        """Give the terminal back for a question; the next `show` takes it again."""

    def close(self) -> None: ...


@contextmanager
def opened(display: Display) -> Iterator[Display]:
    try:
        yield display
    finally:
        display.close()


class PlainDisplay:
    """One line for each change, for logs and pipes."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self._told: dict[str, str] = {}

    def show(self, details: JobDetails) -> None:
        if not details.status.globally_terminal:
            self._tell_job(details)
        for view in views_of(details):
            words = view.words if view.state.terminal else view.words.partition(",")[0]
            self._tell(view.name, f"  {view.name}: {view.state.value.lower()}", f" ({words})")
        if details.waiting:
            self._tell("waiting", f"  waits: {details.waiting}")
        if details.status.globally_terminal:
            self._tell_job(details)

    def set_aside(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is open."""

    def _tell_job(self, details: JobDetails) -> None:
        since = duration_text(max(details.timestamps.values(), default=0) - details.start)
        self._tell("job", f"{details.name} is {details.status.value}", f" after {since}")

    def _tell(self, what: str, text: str, detail: str = "") -> None:
        if self._told.get(what) != text:
            self._told[what] = text
            self.say(text + detail)
