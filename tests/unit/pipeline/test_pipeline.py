import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker import Pipeline
from stoker.core.errors import InvalidJobGraph
from stoker.core.graph import (
    FormatRead,
    FormatWrite,
    JobType,
    PythonFunction,
    RestartPolicy,
    Sink,
    Source,
    Sql,
    Transform,
)
from stoker.core.ids import is_hex_id

Refusal = Callable[[Callable[[], object]], str]


def small(**keywords: Any) -> Pipeline:
    pipeline = Pipeline("small", **keywords)
    pipeline.source("raw", format="parquet", path="in")
    pipeline.sink("raw", format="parquet", path="out")
    return pipeline


def test_every_kind_of_vertex_ends_up_in_the_graph() -> None:
    p = Pipeline("orders", configuration={"spark.sql.shuffle.partitions": 2})

    @p.source
    def raw(spark: Any) -> Any:
        return spark.range(3)

    @p.source(name="ticks", materialized=True)
    def other(spark: Any, params: Any) -> Any:
        return spark.range(3)

    @p.transform
    def joined(raw: Any, ticks: Any) -> Any:
        return raw.join(ticks)

    p.transform("big", sql="SELECT * FROM joined")
    p.source("prices", sql="SELECT * FROM catalog.prices")
    p.sink("big", format="csv", path=Path("out"), header=True, partition_by="day")
    p.sink("prices", table="archive")

    @p.sink("big", name="notify")
    def tell(df: Any) -> None:
        df.show()

    graph = p.build(job_id="0" * 32)
    by_name = {vertex.name: vertex for vertex in graph.vertices}
    assert list(by_name) == [
        "raw",
        "ticks",
        "joined",
        "big",
        "prices",
        "big-csv",
        "prices-parquet",
        "notify",
    ]
    assert by_name["joined"].inputs == ("raw", "ticks")  # type: ignore[union-attr]
    assert by_name["big"] == Transform(
        name="big", inputs=("joined",), compute=Sql(query="SELECT * FROM joined")
    )
    assert by_name["big-csv"] == Sink(
        name="big-csv",
        input="big",
        write=FormatWrite(
            format="csv", path="out", options={"header": "true"}, partition_by=("day",)
        ),
    )
    ticks = by_name["ticks"]
    assert isinstance(ticks, Source)
    assert isinstance(ticks.read, PythonFunction)
    assert ticks.materialized
    assert ticks.read.parameters == ("spark", "params")
    assert graph.configuration == {"spark.sql.shuffle.partitions": "2"}
    assert graph.job_type is JobType.BATCH
    assert graph.environment is not None


def test_a_decorated_function_is_unchanged() -> None:
    p = Pipeline("p")

    @p.transform
    def double(raw: int) -> int:
        return 2 * raw

    assert double(4) == 8


def test_a_sink_with_a_trigger_makes_a_streaming_job() -> None:
    orders = Pipeline("orders-per-hour")

    @orders.source
    def raw(spark: Any) -> Any:
        return spark.readStream.schema("id LONG").json("in/")

    @orders.transform
    def hourly(raw: Any) -> Any:
        return raw

    orders.sink("hourly", format="parquet", path="out/hourly", trigger="10 seconds")
    assert orders.build().job_type is JobType.STREAMING


def test_a_job_id_is_made_when_none_is_given() -> None:
    assert is_hex_id(small().build().job_id)
    assert small().build(job_id="a" * 32).job_id == "a" * 32


def test_importing_and_building_without_functions_needs_no_pyspark() -> None:
    code = (
        "import sys; from stoker import Pipeline; p = Pipeline('p'); "
        "p.source('a', format='csv', path='x'); p.sink('a', format='noop'); p.build(); "
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_parameters_fill_paths_options_queries_and_schemas() -> None:
    p = Pipeline("p", parameters={"day": date(2026, 11, 1), "root": "/data", "sep": None})
    p.source(
        "raw", format="csv", path="${root}/${day}", schema="${sep} INT", options={"sep": "${sep}"}
    )
    p.transform("t", sql="SELECT '${day}', '$${kept}' FROM raw")
    p.sink("t", format="noop", mode="append")
    graph = p.build(params={"sep": ";", "day": "2026-12-24"})
    assert graph.vertices[:2] == (
        Source(
            name="raw",
            read=FormatRead(
                format="csv", path="/data/2026-12-24", schema="; INT", options={"sep": ";"}
            ),
        ),
        Transform(
            name="t",
            inputs=("raw",),
            compute=Sql(query="SELECT '2026-12-24', '${kept}' FROM raw"),
        ),
    )
    assert graph.parameters == {"day": "2026-12-24", "root": "/data", "sep": ";"}


def test_an_unknown_parameter_comes_with_a_suggestion(refusal: Refusal) -> None:
    p = small(parameters={"day": "2026-11-01"})
    assert refusal(lambda: p.build(params={"dya": "x"})) == (
        "the job cannot be accepted: parameter 'dya': the job has no such parameter "
        "(did you mean 'day'?)"
    )
    undeclared = refusal(lambda: small().build(params={"a": "x"}))
    assert "declares no parameters; declare it: Pipeline(…, parameters={'a': None})" in undeclared


def test_a_required_parameter_must_be_given(refusal: Refusal) -> None:
    p = small(parameters={"day": None})
    assert "parameter 'day': it has no value (give --param day=…)" in refusal(p.build)
    assert p.build(params={"day": ""}).parameters == {"day": ""}


def test_a_reference_to_an_unknown_parameter_is_a_fault(refusal: Refusal) -> None:
    p = Pipeline("p", parameters={"day": "1"})
    p.source("raw", format="csv", path="${dayy}")
    p.sink("raw", format="noop")
    message = refusal(p.build)
    assert "source 'raw': '${dayy}' refers to no parameter (did you mean 'day'?" in message


@pytest.mark.parametrize("name", ["job_directory", "a-b", ""])
def test_a_parameter_has_a_name_that_can_be_referred_to(name: str, refusal: Refusal) -> None:
    assert f"parameter '{name}'" in refusal(small(parameters={name: "x"}).build)


def test_a_duplicate_name_is_refused_where_it_is_written(refusal: Refusal) -> None:
    p = small()
    message = refusal(lambda: p.source("raw", format="csv", path="x"))
    assert "vertex 'raw': the name is used twice" in message
    message = refusal(lambda: p.sink("raw", format="parquet", path="out2"))
    assert "vertex 'raw-parquet': the name is used twice (give name=)" in message


def test_faults_of_several_vertices_are_reported_together() -> None:
    p = Pipeline("p")
    p.source("raw", format="csv", header=True, heder=True)
    p.sink("rwa", format="json", path="out")
    with pytest.raises(InvalidJobGraph) as refused:
        p.build()
    assert refused.value.facts["faults"] == [
        "sink 'rwa-json': unknown input 'rwa' (did you mean 'raw'?)",
        "source 'raw': it is not used by any sink (remove it, or add a sink for it)",
        "source 'raw': unknown option 'heder' of format csv (did you mean 'header'?)",
        "source 'raw': format csv needs a path (give path=)",
    ]


def test_a_query_that_reads_no_vertex_gets_a_suggestion(refusal: Refusal) -> None:
    p = small()
    p.transform("t", sql="SELECT * FROM rawe")
    p.sink("t", format="noop")
    assert "transform 't': unknown input 'rawe' (did you mean 'raw'?)" in refusal(p.build)


def test_a_decorator_belongs_to_one_function(refusal: Refusal) -> None:
    p = small()
    decorate, forgotten = p.sink("raw"), p.sink("raw")

    @decorate
    def first(df: Any) -> None: ...

    def second(df: Any) -> None: ...

    expected = "sink of 'raw': one decorator is used for two functions"
    assert expected in refusal(lambda: decorate(second))
    assert "it has neither a format nor a function" in refusal(p.build)
    forgotten(second)
    p.build()


def test_a_decorator_without_a_function_is_a_fault(refusal: Refusal) -> None:
    p = small()
    p.sink("raw", name="forgotten")
    assert "sink of 'raw': it has neither a format nor a function" in refusal(p.build)


def _variadic(*frames: Any) -> None: ...
def _keyword_only(*, raw: Any) -> None: ...
async def _asynchronous(raw: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_variadic, "'*frames: Any' says nothing about what the function reads"),
        (_keyword_only, "parameter 'raw' is positional-only or keyword-only"),
        (_asynchronous, "the function is asynchronous"),
        (lambda raw: raw, "a lambda has no name"),
        (3, "3 is not a function"),
    ],
)
def test_a_function_that_cannot_be_a_vertex_is_refused_at_once(
    function: Any, message: str, refusal: Refusal
) -> None:
    p = Pipeline("p")
    name = None if callable(function) else "x"
    assert message in refusal(lambda: p.transform(name=name)(function))


def test_a_parameter_with_a_default_is_no_input_vertex() -> None:
    p = small()
    for factor in (2, 3):

        @p.transform(name=f"times{factor}")
        def times(raw: Any, factor: int = factor) -> Any:
            return raw * factor

        p.sink(f"times{factor}", format="noop")
    assert p.build().vertex("times2").inputs == ("raw",)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (lambda p: p.source("x"), "source 'x': it has no format"),
        (lambda p: p.source("x", sql="SELECT 1", format="csv"), "it has sql= and a format"),
        (lambda p: p.source(format="csv"), "source: format= without a name"),
        (lambda p: p.transform("x"), "transform 'x': it has no query"),
        (lambda p: p.transform("x", sql="SELECT 1", path="y"), "it does not take path"),
        (lambda p: p.sink("x", path="y"), "sink of 'x': it has no format"),
        (lambda p: p.sink(len), "sink: it has no input"),
        (lambda p: p.source("x", format="csv", path=[1]), "path is a list"),
        (lambda p: p.source("x", format="csv", header=None), "option 'header' is a NoneType"),
        (
            lambda p: p.source("x", format="csv", options={"header": 1}, Header=1),
            "option 'Header' is given twice",
        ),
        (lambda p: Pipeline("p", wheels="a.whl"), "wheels: it is one path (give a list"),
        (lambda p: Pipeline("p", restart={"attemps": 1}), "did you mean 'attempts'?"),
        (lambda p: Pipeline("p", restart={"attempts": "x"}), "restart: Expected `int`"),
        (lambda p: Pipeline("p", restart=3), "restart: it is a int"),
    ],
)
def test_wrong_keywords_are_refused_where_they_are_written(
    define: Callable[[Pipeline], object], message: str, refusal: Refusal
) -> None:
    assert message in refusal(lambda: define(Pipeline("p")))


def test_a_restart_policy_can_be_written_in_three_ways() -> None:
    policy = RestartPolicy(strategy="fixed-delay", attempts=3)
    for given in (policy, {"strategy": "fixed-delay", "attempts": 3}):
        assert small(restart=given).build().restart == policy
    assert small(restart="none").build().restart == RestartPolicy(strategy="none")


def test_every_public_name_exists() -> None:
    assert sorted(stoker.__all__) == ["Pipeline", "__version__", "connect", "connect_async"]
    assert all(hasattr(stoker, name) for name in stoker.__all__)


NOTEBOOK = {"__name__": "__main__"}
"""Variables of a notebook, which has no file."""
FILE = {"__name__": "jobs", "__file__": "/jobs.py"}
TWICE = """
for number in (1, 2):
    pipeline.source("numbers", sql=f"SELECT {number}")
    pipeline.sink("numbers", name="out", format="noop")
"""


def test_a_cell_that_runs_again_replaces_what_it_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    pipeline = Pipeline("cells")
    exec(TWICE, {**NOTEBOOK, "pipeline": pipeline})
    source, _ = pipeline.build().vertices
    assert source.read == Sql(query="SELECT 2")


@pytest.mark.parametrize(("variables", "prompt"), [(FILE, True), (NOTEBOOK, False)])
def test_in_a_file_a_name_is_used_once(
    variables: dict[str, str], prompt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a file that somebody loads at a prompt, and in a script without one."""
    if prompt:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with pytest.raises(InvalidJobGraph, match="the name is used twice"):
        exec(TWICE, {**variables, "pipeline": Pipeline("file")})
