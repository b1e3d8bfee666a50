"""What commands print: results on standard output, everything else on the error stream."""

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from stoker.cli.exit_codes import OK
from stoker.core.ids import JobId
from stoker.core.values import Millis


def say(text: str) -> None:
    """Print to the error stream: standard output is for results."""
    click.echo(text, err=True)


def echo_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def echo_json_line(value: Any) -> None:
    """For a command that prints one value after the other: each on a line of its own."""
    click.echo(msgspec.json.encode(value))


def echo_trigger(job_id: JobId, trigger_id: str, *, json: bool) -> int:
    """The answer of `--detached`: the cluster completes the operation by itself."""
    if json:
        echo_json({"job_id": job_id, "trigger_id": trigger_id})
    else:
        click.echo(trigger_id)
        say("The savepoint is being taken; stoker savepoint list shows it when it is complete.")
    return OK


@contextmanager
def show_steps(title: str) -> Iterator[Callable[[str], None]]:
    """Progress of a slow command: a spinner at a terminal, elsewhere a line for each step."""
    if not sys.stderr.isatty():
        say(f"{title}.")
        yield lambda text: say(f"  {text}")
        return
    # Imported late: rich is slow to import, and a pipe does not need it.
    from rich.console import Console  # noqa: PLC0415

    with Console(stderr=True).status(title) as spinner:
        yield lambda text: spinner.update(f"{title}: {text}")


# Times and places


def duration_text(milliseconds: int) -> str:
    """`0.8 s`, `12.3 s`, `3 min 05 s`, `2 h 07 min`, `3 d 04 h`."""
    seconds = max(0, milliseconds) / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours:02} h"


def moment_text(at: Millis) -> str:
    """Date and time in the time zone of this machine."""
    return datetime.fromtimestamp(at / 1000).strftime("%Y-%m-%d %H:%M:%S")


def absolute_location(text: str | None) -> str | None:
    """Make a relative path absolute: the master has another working directory. URLs stay."""
    if text is None or urlsplit(text).scheme:
        return text
    return str(Path(text).expanduser().absolute())


# Tables

_GAP = "  "
_LEAST_WIDTH = 8
"""No column becomes narrower, whatever the width of the terminal."""
STATE_COLOURS = {
    "RUNNING": "cyan",
    "FINISHED": "green",
    "FAILED": "red",
    "FAILING": "red",
    "CANCELED": "yellow",
    "CANCELLING": "yellow",
    "CANCELING": "yellow",
    "RESTARTING": "yellow",
}
"""For the states of jobs and of attempts; a job is CANCELLING, an attempt CANCELING."""


def stdout_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    shorten: Collection[int] = (),
    ends: Collection[int] = (),
) -> str:
    """At a terminal a table that fits into it, with coloured states; elsewhere plain and whole."""
    if not sys.stdout.isatty():
        return table_text(head, rows)
    text = table_text(head, rows, shorten=shorten, ends=ends, width=_terminal_width())
    return text if os.environ.get("NO_COLOR") else colour_states(text)


def table_text(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    shorten: Collection[int] = (),
    ends: Collection[int] = (),
    width: int | None = None,
) -> str:
    """The columns in `shorten` lose their end when the table is too wide, those in `ends` their
    beginning. Without a width nothing is cut."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    if width is not None:
        widths = fit_widths(widths, {*shorten, *ends}, width - len(_GAP) * (len(head) - 1))
    lines = [
        _GAP.join(
            _cell(cell, widths[column], column in ends) for column, cell in enumerate(row)
        ).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(lines)


def fit_widths(widths: Sequence[int], shorten: Collection[int], available: int) -> list[int]:
    """Cut the widest column that may be cut, letter by letter, until the columns fit."""
    found = list(widths)
    while sum(found) > available:
        wide = [column for column in shorten if found[column] > _LEAST_WIDTH]
        if not wide:
            break
        found[max(wide, key=lambda column: found[column])] -= 1
    return found


def _cell(text: str, width: int, end: bool) -> str:
    if len(text) <= width:
        return text.ljust(width)
    return f"…{text[len(text) - width + 1 :]}" if end else f"{text[: width - 1]}…"


def _terminal_width() -> int:
    """Like shutil.get_terminal_size, whose import takes longer than printing a table."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def colour_states(text: str) -> str:
    """Colour the names of states in the rows of a table, and make its head bold."""
    head, *lines = text.split("\n")
    return "\n".join([click.style(head, bold=True), *map(_coloured_line, lines)])


def _coloured_line(line: str) -> str:
    for word, colour in STATE_COLOURS.items():
        before, found, after = line.partition(f"  {word}")
        if found and (not after or after[0] == " "):
            return f"{before}  {click.style(word, fg=colour)}{after}"
    return line
