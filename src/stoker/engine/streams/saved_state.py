"""Whether a query that starts from a savepoint keeps its state by the same columns as before.

Spark compares only the types of these columns: counts by one column of numbers would silently
become counts by another. The runner checks this, because only Spark knows what a Python function
groups by. Spark's files do not hold everything that is needed, so a query also writes the plan of
its state beside its checkpoint when it first starts, and a restored query is compared with it.
"""

import re
from contextlib import suppress
from pathlib import Path

import pyspark
from pyspark.errors import AnalysisException, PySparkException

from stoker.core.errors import CorruptContent
from stoker.core.failpoints import failpoint
from stoker.engine.failures import CannotRun
from stoker.engine.region.compile import DataFrame
from stoker.engine.region.locations import SparkDirectory
from stoker.osproc.atomic_file import write_atomically
from stoker.savepoints.logs import parse_operator
from stoker.savepoints.state_keys import (
    STATE_PLAN,
    KeyedOperator,
    StatePlan,
    changed_keys,
    changed_plan,
    decode_plan,
    describe_keys,
    encode_plan,
    keys_in_schema,
    operators_in_plan,
    saved_operator,
    state_plan,
)

_INCOMPATIBLE = "IncompatibleState"
_SCHEMAS = re.compile(r"Existing (key|value)_schema=(.*?) and new \1_schema=(.*?)\.\n", re.S)
_FIELD = re.compile(r"StructField\(([^,]+),(\w+?)(?:Type)?(?:\([^)]*\))?,(?:true|false)\)")


def explain_other_schema(sink: str, error: BaseException) -> CannotRun | None:
    """Spark's refusal of state that has other columns, in short; None for any other error."""
    found = _SCHEMAS.search(str(error)) if isinstance(error, PySparkException) else None
    if found is None:
        return None
    part = "keys" if found[1] == "key" else "values"
    old, new = _columns_in(found[2]), _columns_in(found[3])
    return CannotRun(
        _INCOMPATIBLE,
        f"the {part} in the state of {sink} are ({new}) now, and ({old}) in its saved state: Spark "
        "cannot continue with it; keep the aggregations, joins and their columns as they were, or "
        "begin a query under another sink name",
    )


def _columns_in(schema: str) -> str:
    """The columns of Spark's schema, or the schema as it is, if its form is unknown."""
    fields = _FIELD.findall(schema)
    return ", ".join(f"{name} {kind.lower()}" for name, kind in fields) or schema


def _check_key_columns(sink: str, frame: DataFrame, checkpoint: Path) -> None:
    saved = saved_operators(checkpoint)
    if not saved:
        return
    for before, now in changed_keys(saved, operators_in_plan(_physical_plan(frame))):
        raise CannotRun(
            _INCOMPATIBLE,
            f"{sink} keeps its state by {describe_keys(now.keys)}, and its saved state is kept by "
            f"{describe_keys(before.keys)}: Spark would silently mix them up; group by the "
            "same columns under the same names, or begin a query under another sink name",
        )


def saved_operators(checkpoint: Path) -> dict[int, KeyedOperator]:
    """The stateful operators in a checkpoint whose key columns are known."""
    found: dict[int, KeyedOperator] = {}
    for described in sorted(checkpoint.glob("state/*/_metadata/metadata")):
        try:
            operator = parse_operator(described.read_bytes(), str(described))
        except CorruptContent:
            # Spark cannot continue from it either, and reports that itself.
            continue
        schema = checkpoint / "state" / str(operator.id) / "0" / "_metadata" / "schema"
        keys = keys_in_schema(schema.read_bytes()) if schema.exists() else None
        if keys is not None:
            found[operator.id] = saved_operator(operator.name, keys)
    return found


def keep_state_plan(
    sink: str, frame: DataFrame, checkpoint: SparkDirectory, *, is_restored: bool
) -> None:
    """Store the plan of the query's state.

    After a restore, first compare it with the stored one, and the key columns with those of the
    saved state; raise CannotRun if one of them has changed. The plan is compared first, because it
    tells the expressions of keys. Does nothing for a checkpoint on another file system.
    """
    if checkpoint.local is None:
        return
    path = checkpoint.local / STATE_PLAN
    before = _read(path)
    if before is not None and not is_restored:
        return
    now = state_plan(_explain(frame, extended=True), pyspark.__version__)
    if before is not None:
        for change in changed_plan(before, now):
            raise CannotRun(
                _INCOMPATIBLE,
                f"{sink} {change.words}: Spark would silently mix them up; keep the query "
                "as it was, or begin a query under another sink name",
            ) from CannotRun(_INCOMPATIBLE, f"{sink} {change.details}")
    if is_restored:
        _check_key_columns(sink, frame, checkpoint.local)
    if now != before:
        _write(path, encode_plan(now))


def _physical_plan(frame: DataFrame) -> str:
    """Spark's physical plan of the frame, or nothing where Spark refuses to make one.

    Over Spark Connect, Spark does not see that the text of a query reads a stream before it has
    analysed it, and refuses to plan it as a batch. Then only the plan of the state is compared
    (`keep_state_plan`), which Spark makes in every case.
    """
    try:
        return _explain(frame, extended=False)
    except AnalysisException as error:
        if "writeStream.start()" not in str(error):
            raise
        return ""


def _explain(frame: DataFrame, *, extended: bool) -> str:
    """Spark's explanation of the frame, which PySpark can only print for a classic frame."""
    if hasattr(type(frame), "_explain_string"):
        return str(frame._explain_string(extended=extended))
    mode = "extended" if extended else "simple"
    execution = frame._jdf.queryExecution()
    return str(frame._sc._jvm.PythonSQLUtils.explainString(execution, mode))


def _read(path: Path) -> StatePlan | None:
    try:
        return decode_plan(path.read_bytes())
    except OSError:
        return None


def _write(path: Path, content: bytes) -> None:
    """Errors are ignored: Spark cannot write there either, and reports that itself."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(
            path,
            content,
            many_writers=True,
            before_rename=lambda: failpoint("state-plan.before-publishing"),
        )
