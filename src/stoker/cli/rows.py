"""The rows of queries at the command line: as tables on the screen, or in a file."""

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import click

from stoker.cli.output import say, stdout_table
from stoker.client.blocking import BlockingClient
from stoker.client.operations import all_rows
from stoker.client.rows import Rows, cell_text, count_text
from stoker.core.errors import InvalidInput
from stoker.core.ids import JobId
from stoker.core.rows import Row

MOST_SHOWN = 50
"""Rows of a query that are printed; a file gets all that are kept."""
WIDEST_CELL = 80
"""Characters of a value that are printed."""


def print_queries(client: BlockingClient, job_id: JobId, *, only: int | None = None) -> None:
    """Print the rows of every query of the job, or of `only` this one. NotFound if it has none."""
    last = only or client.rows(job_id).queries
    for number in range(only or 1, last + 1):
        found = client.run(all_rows(job_id, number, most=MOST_SHOWN))
        if last > 1 and only is None:
            say(f"Query {number} of {last}: {_shortened(' '.join(found.statement.split()))}")
        print_rows(found)


def print_rows(rows: Rows) -> None:
    """A table on standard output, and on the error stream how many rows there are."""
    shown = [[_shortened(cell_text(value)) for value in row] for row in rows[:MOST_SHOWN]]
    if rows.columns:
        head = [_shortened(cell_text(name)) for name in rows.names]
        click.echo(stdout_table(head, shown, shorten=range(len(head))))
    text = rows.count_text(MOST_SHOWN)
    hint = "; --output FILE writes all" if rows.total > MOST_SHOWN else ""
    say(f"{text[0].upper()}{text[1:]}{hint}.")


def write_rows(rows: Rows, path: Path) -> None:
    """Write the rows in the form that the end of the file's name tells."""
    _writer_for(path)(rows, path)
    note = f"; {rows.truncated}" if rows.truncated else ""
    say(f"Wrote {count_text(len(rows))} to {path}{note}.")


def check_output(path: Path) -> None:
    """Raise InvalidInput if no rows could be written to this file."""
    _writer_for(path)
    if not path.parent.is_dir():
        raise InvalidInput(f"{path.parent} is no directory; make it, or choose another one")


def _writer_for(path: Path) -> Callable[[Rows, Path], None]:
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise InvalidInput(
            f"{path.name} does not tell in which form to write the rows; let its name end with "
            f"{', '.join(_WRITERS)}"
        )
    return writer


def _write_json(rows: Rows, path: Path) -> None:
    names = unique_names(rows.names)
    found = [dict(zip(names, map(plain_value, row), strict=True)) for row in rows]
    path.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _write_csv(rows: Rows, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows.names)
        writer.writerows([[_csv_cell(value) for value in row] for row in rows])


def _write_parquet(rows: Rows, path: Path) -> None:
    table = rows.to_arrow()
    # Only clusters need pyarrow, and `to_arrow` has explained how to install it.
    from pyarrow import parquet  # noqa: PLC0415

    parquet.write_table(table.rename_columns(unique_names(rows.names)), path)


_WRITERS: Mapping[str, Callable[[Rows, Path], None]] = {
    ".csv": _write_csv,
    ".json": _write_json,
    ".parquet": _write_parquet,
}


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, of which repeated ones get a number: `id`, `id_2`."""
    found: list[str] = []
    for name in names:
        candidates = (name if number == 1 else f"{name}_{number}" for number in count(1))
        taken = {*found, *(other for other in names if other != name)}
        found.append(next(each for each in candidates if each not in taken))
    return found


def plain_value(value: Any) -> Any:
    """The value as JSON has it."""
    match value:
        case Row():
            names = unique_names(value.columns)
            return dict(zip(names, map(plain_value, value), strict=True))
        case dict():
            return {_key_text(key): plain_value(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case float() if not math.isfinite(value):
            # JSON has neither an infinity nor a value for "not a number".
            return str(value)
        case bytes():
            return value.hex()
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | timedelta():
            return str(value)
        case _:
            return value


def _key_text(key: Any) -> str:
    plain = plain_value(key)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _csv_cell(value: Any) -> Any:
    plain = plain_value(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, dict | list) else plain


def _shortened(text: str) -> str:
    return text if len(text) <= WIDEST_CELL else f"{text[: WIDEST_CELL - 1]}…"
