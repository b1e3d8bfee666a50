"""The state plan of a query is recorded when it starts and compared when it is restored."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from stoker.core.failpoints import armed
from stoker.engine.failures import CannotRun
from stoker.engine.region.locations import SparkDirectory
from stoker.engine.streams.saved_state import explain_other_schema, keep_state_plan
from stoker.savepoints.state_keys import STATE_PLAN


class Frame:
    """A data frame with an explanation like Spark's."""

    def __init__(self, grouping: str) -> None:
        self.grouping = grouping
        self.explained = 0

    def _explain_string(self, *, extended: bool) -> str:
        self.explained += 1
        if not extended:
            return ""
        return f"== Analyzed Logical Plan ==\n~Aggregate [{self.grouping}], [count(1)]\n"


def keep(root: Path, frame: Any, *, is_restored: bool = False) -> None:
    place = SparkDirectory(url=(root / "out").as_uri(), local=root / "out")
    keep_state_plan("out", frame, place, is_restored=is_restored)


def test_a_restored_query_with_another_grouping_is_refused(tmp_path: Path):
    keep(tmp_path, Frame("(n#1 % 3)"))
    keep(tmp_path, Frame("(n#2 % 3)"), is_restored=True)
    with pytest.raises(CannotRun, match="out groups by n % 5, and its saved state") as refused:
        keep(tmp_path, Frame("(n#1 % 5)"), is_restored=True)
    assert refused.value.error == "IncompatibleState"
    # The refused query has not changed the recorded plan.
    keep(tmp_path, Frame("(n#1 % 3)"), is_restored=True)


def test_a_restart_of_the_same_job_does_not_ask_spark_for_its_plan(tmp_path: Path):
    keep(tmp_path, Frame("k#1"))
    frame = Frame("k#2")
    keep(tmp_path, frame)
    assert frame.explained == 0


def test_a_savepoint_of_an_earlier_release_has_no_plan_and_gets_one(tmp_path: Path):
    keep(tmp_path, Frame("k#1"), is_restored=True)
    with pytest.raises(CannotRun):
        keep(tmp_path, Frame("n#1"), is_restored=True)


def test_a_checkpoint_that_only_spark_reaches_is_left_alone():
    frame = Frame("k#1")
    keep_state_plan("out", frame, SparkDirectory(url="s3://c/out", local=None), is_restored=True)
    assert frame.explained == 0


def test_a_crash_before_publishing_leaves_no_state_plan(tmp_path: Path):
    def die() -> None:
        raise RuntimeError("dead")

    with armed("state-plan.before-publishing", die), pytest.raises(RuntimeError):
        keep(tmp_path, Frame("k#1"))
    assert not (tmp_path / "out" / STATE_PLAN).exists()
    keep(tmp_path, Frame("k#1"))
    assert (tmp_path / "out" / STATE_PLAN).exists()


def test_the_refusal_has_all_of_the_expressions_for_who_asks_for_more(tmp_path: Path):
    long = f"f({'a' * 300})"
    keep(tmp_path, Frame(f"{long}, k#1"))
    with pytest.raises(CannotRun) as refused:
        keep(tmp_path, Frame(f"{long}, n#1"), is_restored=True)
    assert len(refused.value.message) < 200
    assert "groups by n, and its saved state was grouped by k" in refused.value.message
    assert long in str(refused.value.__cause__)


OTHER_VALUES = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match existing \
state value schema.
Please check number and type of fields.
Existing value_schema=StructType(StructField(count,LongType,true)) and new \
value_schema=StructType(StructField(count,LongType,true),StructField(sum,DecimalType(10,2),true)).
If you want to force running the query without schema validation, please set \
spark.sql.streaming.stateStore.stateSchemaCheck to false.
=== Streaming Query ===
"""


def test_state_with_other_columns_is_refused_with_both_lists():
    """Spark's own text names types of the JVM and advises to skip the check."""
    explained = explain_other_schema("out", StreamingQueryException(OTHER_VALUES))
    assert explained is not None
    assert explained.error == "IncompatibleState"
    assert explained.message.startswith(
        "the values in the state of out are (count long, sum decimal) now, and (count long) in its "
        "saved state:"
    )
    assert explain_other_schema("out", StreamingQueryException("another")) is None
    assert explain_other_schema("out", ValueError(OTHER_VALUES)) is None
