"""What can be learned from a Python file without running it."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidInput
from stoker.core.graph import EngineKind
from stoker.pipeline.engine_choice import choose_engine, find_classic_uses
from stoker.pipeline.python_file import is_pipeline, parse


@pytest.mark.parametrize(
    "source",
    [
        "from stoker import Pipeline\np = Pipeline('x')",
        "import stoker\np = stoker.Pipeline('x')",
        "def f():\n    from stoker.pipeline import Pipeline",
        "import stoker\np = stoker.Pipeline('x')\nstoker.connect().submit(p)",
        "from stoker import Pipeline, connect\np = Pipeline('x')",
        "import stoker, sqlite3\nfrom jobs import p\nsqlite3.connect('x')",
    ],
)
def test_a_file_that_uses_stoker_is_a_pipeline(source: str) -> None:
    assert is_pipeline(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "",
        "from pyspark.sql import SparkSession",
        "import stokers",
        "x = 'from stoker import y'",
        "import stoker\nwith stoker.connect() as c:\n    c.submit('orders.py')",
        "from stoker import connect_async",
    ],
)
def test_a_file_that_defines_no_job_of_stoker_is_a_program(source: str) -> None:
    assert not is_pipeline(ast.parse(source))


@pytest.mark.parametrize(
    ("source", "sign"),
    [
        ("spark.sparkContext.parallelize([1])", "line 1 uses parallelize"),
        ("x = 1\ndf.rdd.map(f)", "line 2 uses rdd"),
        ("from pyspark import SparkConf", "line 1 uses SparkConf"),
        ("spark._jvm.java.lang.System", "line 1 uses _jvm"),
        ("import pyspark.mllib.linalg", "line 1 uses pyspark.mllib.linalg"),
        ("b.config('spark.executor.memory', '1g')", "line 1 uses spark.executor.memory"),
        ("SparkSession.builder.master('local[1]')", "line 1 uses master()"),
    ],
)
def test_code_that_needs_a_driver_of_its_own_is_found(source: str, sign: str) -> None:
    assert sign in [str(each) for each in find_classic_uses(ast.parse(source))]


def test_plain_dataframes_need_no_driver_of_their_own() -> None:
    source = "df = spark.read.csv('x').config\nspark.conf.set('spark.sql.ansi.enabled', 'true')"
    assert find_classic_uses(ast.parse(source)) == []


def test_auto_says_why_it_chose() -> None:
    uses_rdd = ast.parse("df.rdd")
    plain = ast.parse("df.count()")
    chosen = choose_engine("auto", uses_rdd, {}, is_program=False)
    assert (chosen.engine, chosen.reason) == (EngineKind.CLASSIC, "line 1 uses rdd")
    assert choose_engine("auto", plain, {}, is_program=False).engine is EngineKind.CONNECT
    assert choose_engine("auto", None, {}, is_program=False).engine is EngineKind.CONNECT
    assert choose_engine("auto", plain, {}, is_program=True).engine is EngineKind.CLASSIC
    static = choose_engine("auto", plain, {"spark.executor.cores": "2"}, is_program=False)
    assert "spark.executor.cores" in static.reason


def test_an_explicit_engine_is_used() -> None:
    uses_rdd = ast.parse("df.rdd")
    assert choose_engine("connect", uses_rdd, {}, is_program=True).engine is EngineKind.CONNECT
    assert choose_engine("classic", None, {}, is_program=False).engine is EngineKind.CLASSIC


def test_a_script_that_does_not_parse_is_refused_with_its_line() -> None:
    with pytest.raises(InvalidInput, match=r"job\.py line 2 column 5: this is not Python"):
        parse("x = 1\ny = (", Path("job.py"))


@given(st.text())
def test_any_text_is_parsed_or_refused(source: str) -> None:
    refusal = ""
    try:
        parse(source, Path("job.py"))
    except InvalidInput as error:
        refusal = str(error)
    assert refusal == "" or "job.py" in refusal
