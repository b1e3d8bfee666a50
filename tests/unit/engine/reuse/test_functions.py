"""Which functions of a job leave nothing behind in the process that called them."""

import json
import os
import pickle
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pyspark.sql.functions as F
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, udf

from stoker.engine.reuse.functions import only_describes_a_query

COUNT = 3
kept: list[object] = []


def pickled(function: object) -> bytes:
    """The function by value, as a pipeline's file sends it."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        payload: bytes = cloudpickle.dumps(function)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    return payload


def ten(spark: SparkSession) -> DataFrame:
    return spark.range(10)


def file(spark: Any) -> Any:
    return spark.read.format("csv").option("header", True).load("/data/in")


def chain(numbers: Any) -> Any:
    even = numbers.where(F.col("id") % 2 == 0)
    return even.groupBy("id").agg(F.sum("id").alias("total")).orderBy(col("total").desc())


def chosen(numbers: Any, params: Any) -> Any:
    return numbers.where(col("day") == params["day"])


def keywords(orders: Any, customers: Any) -> Any:
    return orders.join(customers, on="id", how="left").sample(fraction=0.5, seed=1)


@pytest.mark.parametrize("function", [ten, file, chain, chosen, keywords])
def test_a_function_that_is_a_straight_line_of_calls_to_spark_is_accepted(
    function: Callable[..., Any],
) -> None:
    assert only_describes_a_query(pickled(function))


def imports(spark: Any) -> Any:
    import random  # noqa: F401, PLC0415

    return spark.range(10)


def threads(spark: Any) -> Any:
    threading.Thread(target=print).start()
    return spark.range(10)


def environment(spark: Any) -> Any:
    os.environ["WHO"] = "me"
    return spark.range(10)


def changes_spark(spark: Any) -> Any:
    F.col = None  # type: ignore[assignment]
    return spark.range(10)


def replaces_global(spark: Any) -> Any:
    global COUNT
    COUNT = 4
    return spark.range(10)


def reaches_inside(spark: Any) -> Any:
    return spark.__class__.range


def private(spark: Any) -> Any:
    return spark._client


def builtin(spark: Any) -> Any:
    print("hello")
    return spark.range(10)


def opens(spark: Any) -> Any:
    open("/dev/null")  # noqa: SIM115
    return spark.range(10)


def loops(spark: Any) -> Any:
    frame = spark.range(10)
    for _ in "abc":
        frame = frame.distinct()
    return frame


def nested(numbers: Any) -> Any:
    return numbers.select(F.transform("id", lambda x: x + 1))


def calls_its_own(spark: Any) -> Any:
    return ten(spark)


def appends(spark: Any) -> Any:
    kept.append(spark)
    return spark.range(10)


def with_udf(numbers: Any) -> Any:
    return numbers.select(udf(json.dumps)("id"))


def with_udf_by_module(numbers: Any) -> Any:
    return numbers.select(F.udf(F.col)("id"))


def with_default(spark: Any, seen: Any = kept) -> Any:
    return spark.range(10)


def typed_by_others(spark: json.JSONDecoder) -> Any:
    return spark.range(10)  # type: ignore[attr-defined]


def stops(spark: Any) -> Any:
    spark.stop()
    return spark.range(10)


def sets(spark: Any) -> Any:
    spark.conf.set("a", "b")
    return spark.range(10)


@pytest.mark.parametrize(
    "function",
    [
        imports,
        threads,
        environment,
        changes_spark,
        replaces_global,
        reaches_inside,
        private,
        builtin,
        opens,
        loops,
        nested,
        calls_its_own,
        appends,
        with_udf,
        with_udf_by_module,
        with_default,
        typed_by_others,
        stops,
        sets,
    ],
)
def test_a_function_that_does_anything_else_is_not_accepted(function: Callable[..., Any]) -> None:
    assert not only_describes_a_query(pickled(function))


def test_a_function_of_an_imported_module_is_not_accepted() -> None:
    assert not only_describes_a_query(cloudpickle.dumps(ten))


def test_a_function_with_attributes_is_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert only_describes_a_query(pickled(ten))
    monkeypatch.setattr(ten, "cache", {}, raising=False)
    assert not only_describes_a_query(pickled(ten))


def test_a_closure_is_not_accepted() -> None:
    seen: list[Any] = []

    def captures(spark: Any) -> Any:
        return seen

    assert not only_describes_a_query(pickled(captures))


@pytest.mark.parametrize("value", [len, print, 3, None, F.col, partial(ten, spark=None)])
def test_other_values_are_not_accepted(value: object) -> None:
    assert not only_describes_a_query(pickled(value))


class Runs:
    """Unpickling it runs code, and gives the harmless function that it names."""

    def __reduce__(self) -> Any:
        return _kept_and_returned, (ten,)


def _kept_and_returned(function: object) -> object:
    kept.append(function)
    return function


class Changes:
    """Unpickling it changes a function of Spark."""

    def __reduce__(self) -> Any:
        return F.col, ("id",), (None, {"__doc__": "changed"})


def test_a_pickle_that_runs_code_is_not_accepted_and_does_not_run_it() -> None:
    before = len(kept)
    for hostile in (Runs(), Changes(), [Runs(), ten], {"a": Runs()}):
        assert not only_describes_a_query(pickled(hostile))
    assert len(kept) == before


def test_a_pickle_that_runs_code_before_it_gives_a_harmless_function_is_not_accepted() -> None:
    harmless = pickled(ten)
    # Protocol 4: push the function `os.getpid`, call it without arguments, drop the answer.
    call = b"\x8c\x02os\x8c\x06getpid\x93)R0"
    assert only_describes_a_query(harmless)
    header = harmless[:2]
    assert pickle.loads(header + call + b"N.") is None
    assert not only_describes_a_query(header + call + harmless[2:])


@given(st.binary(max_size=200))
def test_any_bytes_are_judged_without_an_error(payload: bytes) -> None:
    assert not only_describes_a_query(payload)


@given(data=st.data())
def test_a_damaged_pickle_is_judged_without_an_error(data: st.DataObject) -> None:
    payload = bytearray(pickled(chain))
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] = data.draw(st.integers(0, 255))
    only_describes_a_query(bytes(payload))
