"""Whether a query that goes on from a savepoint would keep its state by the same columns.

Asked by the runner, since only Spark knows what a function of Python groups by.
"""

from pathlib import Path

from stoker.core.errors import CorruptContent
from stoker.engine.failures import CannotRun
from stoker.engine.region.compile import DataFrame
from stoker.engine.region.locations import Place
from stoker.savepoints.logs import parse_operator
from stoker.savepoints.state_keys import (
    KeyedOperator,
    changed_keys,
    keys_in_schema,
    operators_in_plan,
    saved_operator,
    words_for,
)


def check_state_keys(sink: str, frame: DataFrame, checkpoint: Place) -> None:
    """Where the checkpoint is on this machine's file system; elsewhere it is not known here."""
    if checkpoint.local is None:
        return
    saved = saved_operators(checkpoint.local)
    if not saved:
        return
    for before, now in changed_keys(saved, operators_in_plan(frame._explain_string())):
        raise CannotRun(
            "IncompatibleState",
            f"{sink} keeps its state by {words_for(now.keys)}, and what was saved is kept by "
            f"{words_for(before.keys)}: Spark would take the one for the other; group by the "
            "same columns under the same names, or begin a query under another sink name",
        )


def saved_operators(checkpoint: Path) -> dict[int, KeyedOperator]:
    """Those of which the columns are known."""
    found: dict[int, KeyedOperator] = {}
    for described in sorted(checkpoint.glob("state/*/_metadata/metadata")):
        try:
            operator = parse_operator(described.read_bytes(), str(described))
        except CorruptContent:
            # Spark cannot go on from it either, and says so.
            continue
        schema = checkpoint / "state" / str(operator.id) / "0" / "_metadata" / "schema"
        keys = keys_in_schema(schema.read_bytes()) if schema.exists() else None
        if keys is not None:
            found[operator.id] = saved_operator(operator.name, keys)
    return found
