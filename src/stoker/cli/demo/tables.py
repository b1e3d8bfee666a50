"""The tables of the demo: its processes, and results read from their files without Spark."""

from pathlib import Path

import pyarrow.types
from pyarrow import parquet
from rich.table import Table

from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import ClusterState

LONGEST = 10
"""Number of rows that are shown."""


def processes_table(cluster: LocalCluster) -> Table:
    table = Table("process", "pid", "log", title="Processes", title_justify="left")
    for record in (cluster.state or ClusterState()).processes:
        table.add_row(record.name, str(record.pid), record.log)
    return table


def result_table(directory: Path, title: str, *order: str) -> Table:
    """The result sorted by the named columns; a dash before a name sorts in descending order."""
    content = parquet.read_table(directory)
    keys = [(name.lstrip("-"), _direction(name)) for name in order]
    rows = content.sort_by(keys).to_pylist()
    count = f"{len(rows)} rows" if len(rows) <= LONGEST else f"first {LONGEST} of {len(rows)} rows"
    table = Table(title=f"{title} ({count})", title_justify="left")
    for field in content.schema:
        number = pyarrow.types.is_floating(field.type) or pyarrow.types.is_integer(field.type)
        table.add_column(field.name, justify="right" if number else "left")
    for row in rows[:LONGEST]:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _direction(name: str) -> str:
    return "descending" if name.startswith("-") else "ascending"


def _cell(value: object) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
