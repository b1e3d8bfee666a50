import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from stoker import Pipeline
from stoker.core.graph import JobGraph, PythonFunction, Sink, Source, Transform
from stoker.pipeline.load import load_job

Refusal = Callable[[Callable[[], object]], str]
WriteFile = Callable[[str, str], Path]

LOCK = threading.Lock()


def through_a_helper() -> object:
    return LOCK


def rows_of_nothing(spark: Any) -> Any:
    return spark.range(0)


def job_with(function: Callable[..., Any]) -> Pipeline:
    p = Pipeline("p")
    p.source(name="raw")(function)
    p.sink("raw", format="noop", mode="append")
    return p


def payload_of(graph: JobGraph, name: str) -> bytes:
    vertex = graph.vertex(name)
    work = vertex.read if isinstance(vertex, Source) else vertex.compute  # type: ignore[union-attr]
    assert isinstance(work, PythonFunction)
    return work.payload


def test_a_captured_connection_is_named_in_the_refusal(refusal: Refusal) -> None:
    connection = sqlite3.connect(":memory:")

    def load(spark: Any) -> Any:
        return connection.execute("SELECT 1")

    message = refusal(job_with(load).build)
    connection.close()
    assert message == (
        "the job cannot be accepted: source 'raw': function 'load' cannot be serialized: it "
        "captures 'connection', which is a sqlite3.Connection (open it inside the function)"
    )


def test_a_captured_object_is_found_through_helper_functions(refusal: Refusal) -> None:
    def load(spark: Any) -> Any:
        return [through_a_helper() for _ in range(2)]

    message = refusal(job_with(load).build)
    assert "it captures 'through_a_helper.LOCK', which is a _thread.lock" in message


def test_a_captured_session_should_be_a_parameter(refusal: Refusal) -> None:
    class SparkSession:
        def __reduce__(self) -> str:
            raise RuntimeError("not for workers")

    SparkSession.__module__ = "pyspark.sql.session"
    session = SparkSession()

    def load() -> Any:
        return session

    message = refusal(job_with(load).build)
    assert "take the session as the parameter 'spark'" in message


def test_a_function_of_a_job_loads_where_the_job_is_not_installed(
    write: WriteFile, tmp_path: Path
) -> None:
    (tmp_path / "shop").mkdir()
    write("shop/__init__.py", "")
    write("shop/prices.py", "FACTOR = 3\ndef raised(x):\n    return x * FACTOR\n")
    write("names.py", "def shout(text):\n    return text.upper()\n")
    job = write(
        "job.py",
        "import names\n"
        "from dataclasses import dataclass\n"
        "from shop.prices import raised\n"
        "from stoker import Pipeline\n"
        "p = Pipeline('p')\n"
        "@dataclass\n"
        "class Price:\n"
        "    value: int\n"
        "def helper(x):\n"
        "    return Price(raised(x))\n"
        "@p.source\n"
        "def raw(spark, params):\n"
        "    return names.shout(params['who']), helper(spark).value\n"
        "p.sink('raw', format='noop')\n",
    )
    payload = payload_of(load_job(job).graph, "raw")
    elsewhere = subprocess.run(
        [
            sys.executable,
            "-c",
            "import pickle, sys\n"
            "f = pickle.loads(bytes.fromhex(sys.stdin.read()))\n"
            "print(*f(2, {'who': 'me'}))",
        ],
        input=payload.hex(),
        capture_output=True,
        text=True,
        cwd="/",
        check=True,
    )
    assert elsewhere.stdout == "ME 6\n"
    assert not {"names", "shop", "shop.prices", "stoker_job_job"} & set(sys.modules)


def test_the_environment_names_python_and_the_libraries_that_the_job_imports(
    write: WriteFile,
) -> None:
    job = write(
        "job.py",
        "import json, yaml\n"
        "from stoker import Pipeline\n"
        "p = Pipeline('p')\n"
        "@p.source\n"
        "def raw(spark):\n"
        "    import pandas as pd\n"
        "    return spark.createDataFrame(pd.DataFrame())\n"
        "p.sink('raw', format='noop')\n",
    )
    environment = load_job(job).graph.environment
    assert environment is not None
    assert environment.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert set(environment.libraries) == {"pandas", "pyspark", "PyYAML"}
    assert environment.libraries["pandas"] == pd.__version__


@pytest.mark.parametrize("package", ["soot", "called_otherwise"])
def test_an_upgraded_library_is_recorded_with_its_new_version(
    package: str, write: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))

    def version_after_installing(version: str) -> str:
        shutil.rmtree(site, ignore_errors=True)
        described = site / f"soot-{version}.dist-info"
        described.mkdir(parents=True)
        (described / "METADATA").write_text(f"Name: soot\nVersion: {version}\n")
        (described / "top_level.txt").write_text(f"{package}\n")
        job = write(
            "job.py",
            "from stoker import Pipeline\n"
            "p = Pipeline('p')\n"
            "@p.source\n"
            "def raw(spark):\n"
            f"    import {package}\n"
            "p.sink('raw', format='noop')\n",
        )
        environment = load_job(job).graph.environment
        assert environment is not None
        return environment.libraries["soot"]

    assert [version_after_installing(v) for v in ("1.0", "2.0")] == ["1.0", "2.0"]


def test_a_distribution_that_travels_as_a_wheel_is_not_in_the_environment(
    write: WriteFile, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "PyYAML-6.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("PyYAML-6.0.dist-info/METADATA", "")
    job = write(
        "job.py",
        "import yaml\n"
        "from stoker import Pipeline\n"
        "p = Pipeline('p', wheels=['PyYAML-6.0-py3-none-any.whl'])\n"
        "@p.source\n"
        "def raw(spark):\n"
        "    return yaml\n"
        "p.sink('raw', format='noop')\n",
    )
    environment = load_job(job).graph.environment
    assert environment is not None
    assert set(environment.libraries) == {"pyspark"}


def test_the_function_of_a_sink_carries_its_parameters() -> None:
    p = Pipeline("p", parameters={"day": "1"})
    p.source("ticks", format="rate", streaming=True)

    @p.sink("ticks", trigger=" 1  SECOND ")
    def tell(df: Any, batch_id: int, params: Any) -> Any:
        return df, batch_id, params

    graph = p.build(params={"day": "2"})
    sink = graph.vertex("tell")
    assert isinstance(sink, Sink)
    assert isinstance(sink.write, PythonFunction)
    assert sink.write.parameters == ("df", "batch_id")
    assert pickle.loads(sink.write.payload)("frame", 7) == ("frame", 7, {"day": "2"})
    assert sink.trigger == "1 second"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda df, spark: df, "use df.sparkSession instead"),
        (lambda params, df: df, "'params' is not its last parameter (write it last)"),
    ],
)
def test_a_sink_function_with_parameters_that_spark_does_not_pass_is_refused(
    function: Callable[..., Any], message: str, refusal: Refusal
) -> None:
    assert message in refusal(lambda: Pipeline("p").sink("raw", name="tell")(function))


def test_a_job_without_functions_has_no_environment() -> None:
    p = Pipeline("p")
    p.source("raw", format="csv", path="x")
    p.sink("raw", format="noop")
    assert p.build().environment is None


def test_a_function_that_captures_large_data_is_too_large(refusal: Refusal) -> None:
    table = bytes(9 * 2**20)

    def load(spark: Any) -> Any:
        return table

    message = refusal(job_with(load).build)
    assert "the largest part is source 'raw' with 12.0 MiB" in message
    assert "add it as an artifact" in message


def test_installed_functions_travel_by_reference() -> None:
    p = Pipeline("p")
    p.source("raw", format="csv", path="x")

    @p.transform
    def parsed(raw: Any) -> Any:
        return pd.read_csv(raw)

    p.sink("parsed", format="noop")
    payload = payload_of(p.build(), "parsed")
    assert len(payload) < 2000
    assert isinstance(p.build().vertex("parsed"), Transform)
    assert pickle.loads(payload).__name__ == "parsed"


@pytest.mark.parametrize("value", [3, "text", [1, 2], {"a": (1,)}, None])
def test_plain_captured_values_travel(value: object) -> None:
    def load() -> object:
        return value

    assert pickle.loads(payload_of(job_with(load).build(), "raw"))() == value


class YieldsToThreads:
    """Lets other threads run while it is pickled."""

    def __reduce__(self) -> tuple[type["YieldsToThreads"], tuple[()]]:
        time.sleep(0)
        return YieldsToThreads, ()


def test_threads_that_build_at_the_same_time_all_send_their_code_along() -> None:
    captured = [YieldsToThreads() for _ in range(5)]

    def load(spark: Any) -> Any:
        return rows_of_nothing(spark) if captured else None

    job = job_with(load)
    expected = payload_of(job.build(), "raw")
    start = threading.Barrier(4)

    def build_often() -> set[bytes]:
        start.wait()
        return {payload_of(job.build(), "raw") for _ in range(5)}

    with ThreadPoolExecutor(4) as threads:
        builds = [threads.submit(build_often) for _ in range(4)]
        payloads = set().union(*(build.result() for build in builds))
    assert payloads == {expected}


def test_a_module_that_is_loaded_under_two_names_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    """multiprocessing loads the main module of a program under a second name."""
    beside = ModuleType("beside")
    beside.__file__ = str(Path(__file__).with_name("beside.py"))
    for name in ("beside", "__mp_main__"):
        monkeypatch.setitem(sys.modules, name, beside)
    assert payload_of(job_with(rows_of_nothing).build(), "raw")
