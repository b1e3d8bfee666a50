"""Tables as text: as wide as they need to be, and at a terminal no wider than that."""

import os
import sys
from collections.abc import Collection, Sequence

import click

_GAP = "  "
_LEAST = 8
"""Letters that are left of a column, whatever the terminal."""
_COLOURS = {
    "RUNNING": "cyan",
    "FINISHED": "green",
    "FAILED": "red",
    "FAILING": "red",
    "CANCELED": "yellow",
    "CANCELLING": "yellow",
    "RESTARTING": "yellow",
}


def table_text(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    shorten: Collection[int] = (),
    ends: Collection[int] = (),
    width: int | None = None,
) -> str:
    """`shorten` are columns that may be cut, and of `ends` the end is what stays; None as the width
    is as wide as it takes."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    if width is not None:
        widths = fitted(widths, {*shorten, *ends}, width - len(_GAP) * (len(head) - 1))
    lines = [
        _GAP.join(
            _cell(cell, widths[column], column in ends) for column, cell in enumerate(row)
        ).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(lines)


def fitted(widths: Sequence[int], shorten: Collection[int], available: int) -> list[int]:
    """The widest of those that may be cut is cut first, letter by letter."""
    found = list(widths)
    while sum(found) > available:
        wide = [column for column in shorten if found[column] > _LEAST]
        if not wide:
            break
        found[max(wide, key=lambda column: found[column])] -= 1
    return found


def _cell(text: str, width: int, end: bool) -> str:
    if len(text) <= width:
        return text.ljust(width)
    return f"…{text[len(text) - width + 1 :]}" if end else f"{text[: width - 1]}…"


def shown_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    shorten: Collection[int] = (),
    ends: Collection[int] = (),
) -> str:
    """For standard output: fitted and in colours if that is a terminal, else plain and whole."""
    if not sys.stdout.isatty():
        return table_text(head, rows)
    text = table_text(head, rows, shorten=shorten, ends=ends, width=_columns())
    return text if os.environ.get("NO_COLOR") else coloured(text)


def _columns() -> int:
    """As shutil has it, which takes longer to import than to print a table."""
    told = os.environ.get("COLUMNS", "")
    if told.isdigit() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def coloured(text: str) -> str:
    """The words that name a state, below the head of the table."""
    head, *lines = text.split("\n")
    return "\n".join([click.style(head, bold=True), *map(_coloured_line, lines)])


def _coloured_line(line: str) -> str:
    for word, colour in _COLOURS.items():
        before, found, after = line.partition(f"  {word}")
        if found and (not after or after[0] == " "):
            return f"{before}  {click.style(word, fg=colour)}{after}"
    return line
