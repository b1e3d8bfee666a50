"""A job at a terminal: its state and a progress bar for each region, redrawn in place."""

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from stoker.cli.display import write_output
from stoker.cli.output import STATE_COLOURS, duration_text
from stoker.client.progress import RegionView, views_of
from stoker.core.results import JobDetails
from stoker.core.states import ExecutionState, JobStatus


class LiveDisplay:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._spinner = Spinner("dots")
        self._unfinished: dict[str, bytes] = {}
        """The last line of each output stream, as long as it has no end."""

    def show(self, details: JobDetails) -> None:
        if details.status.globally_terminal:
            for stream in tuple(self._unfinished):
                self.print_output(stream, b"\n")
        if self._live is None:
            self._live = Live(console=self._console, refresh_per_second=8, transient=False)
            self._live.start()
        self._live.update(self._picture(details), refresh=details.status.globally_terminal)

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def print_output(self, stream: str, data: bytes) -> None:
        """Print whole lines in place of the picture, which is drawn again below them."""
        lines, newline, rest = (self._unfinished.pop(stream, b"") + data).rpartition(b"\n")
        if rest:
            self._unfinished[stream] = rest
        if newline:
            if self._live is not None:
                self._live.transient = True
                self.set_aside()
            write_output(stream, lines + newline)

    def set_aside(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def close(self) -> None:
        self.set_aside()

    def _picture(self, details: JobDetails) -> RenderableType:
        parts: list[RenderableType] = [self._headline(details), _bars(views_of(details))]
        if details.waiting and not details.status.globally_terminal:
            parts.append(Text(f"  waits: {details.waiting}", style="yellow"))
        return Group(*parts)

    def _headline(self, details: JobDetails) -> RenderableType:
        ended = details.status.globally_terminal
        end = details.end if ended and details.end is not None else round(time.time() * 1000)
        text = Text.assemble(
            (details.name, "bold"),
            "  ",
            (details.status.value, style_of(details.status)),
            f"  {duration_text(end - details.start)}",
            (f"  {details.job_id[:12]}", "dim"),
        )
        if ended:
            return text
        self._spinner.update(text=text)
        return self._spinner


def style_of(state: JobStatus | ExecutionState) -> str:
    return STATE_COLOURS.get(state.value, "default")


def _bars(views: list[RegionView]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 2))
    for view in views:
        total = None if view.share is None else 1.0
        bar = ProgressBar(
            total=total,
            completed=view.share or 0.0,
            width=30,
            pulse=total is None,
            complete_style="cyan",
            finished_style="green",
        )
        table.add_row(view.name, bar, Text(view.words, style=style_of(view.state)))
    return table
