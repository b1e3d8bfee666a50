"""Which functions of a job leave nothing behind in the process that called them."""

import dis
import json
import os
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pyspark.sql.functions as F
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, udf

from stoker.engine.reuse.functions import only_describes_a_query

COUNT = 3
kept: list[object] = []


def by_value(function: Callable[..., Any]) -> FunctionType:
    """The function as a runner unpickles it: only with the global names that it uses."""
    assert isinstance(function, FunctionType)
    used = {
        step.argval
        for step in dis.get_instructions(function.__code__)
        if step.opname == "LOAD_GLOBAL"
    }
    names = {name: value for name, value in function.__globals__.items() if name in used}
    made = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__ = function.__module__
    made.__annotations__ = function.__annotations__
    return made


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
    assert only_describes_a_query(by_value(function))


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
    assert not only_describes_a_query(by_value(function))


def test_a_function_of_an_imported_module_is_not_accepted() -> None:
    assert not only_describes_a_query(ten)


def test_a_function_with_defaults_or_attributes_is_not_accepted() -> None:
    unpickled = by_value(ten)
    assert only_describes_a_query(unpickled)
    unpickled.cache = {}  # type: ignore[attr-defined]
    assert not only_describes_a_query(unpickled)


def test_a_closure_is_not_accepted() -> None:
    seen: list[Any] = []

    def captures(spark: Any) -> Any:
        return seen

    assert not only_describes_a_query(by_value(captures))


@pytest.mark.parametrize("value", [len, ten.__call__, type("Callable", (), {"__call__": ten})()])
def test_other_callables_are_not_accepted(value: object) -> None:
    assert not only_describes_a_query(value)
