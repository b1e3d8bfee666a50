import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from stoker.core.errors import InvalidInput, InvalidJobGraph
from stoker.core.graph import (
    CallerDirectory,
    EngineKind,
    FormatRead,
    Program,
    Source,
    engine_of,
)
from stoker.core.ids import JobId
from stoker.core.spark_paths import describe_directory
from stoker.pipeline.drafts import JobSettings
from stoker.pipeline.load import SqlText, load_job, parse_params
from stoker.testing.sample_jobs import new_graph

Refusal = Callable[[Callable[[], object]], str]
WriteFile = Callable[[str, str], Path]

HEAD = "from stoker import Pipeline\n"
BODY = (
    "{0} = Pipeline('{0}-job')\n"
    "{0}.source('a', format='csv', path='x')\n"
    "{0}.sink('a', format='noop')\n"
)
AS_PIPELINE = JobSettings(is_program=False)
YAML_WITH_FOLDER = """
name: folders
parameters:
  folder:
sources:
  a: {format: json, path: "${folder}/x"}
sinks:
  b: {input: a, format: noop}
"""
EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_python_file_gives_its_pipeline(write: WriteFile) -> None:
    job = load_job(
        write("job.py", HEAD + BODY.format("p")), JobSettings(name="renamed", job_id="b" * 32)
    )  # type: ignore[arg-type]
    assert job.graph.name == "renamed"
    assert job.graph.job_id == "b" * 32


def test_configuration_from_outside_overrides_that_of_the_file(write: WriteFile) -> None:
    text = HEAD + BODY.format("p").replace("-job'", "-job', configuration={'k': 1, 'l': 2}")
    job = load_job(write("job.py", text), JobSettings(configuration={"k": "3"}))
    assert job.graph.configuration == {"k": "3", "l": "2"}


def test_a_file_sees_its_arguments_and_leaves_no_trace_in_sys(write: WriteFile) -> None:
    text = HEAD + "import sys\nname = sys.argv[1]\n" + BODY.format("p").replace("'p-job'", "name")
    path, argv, modules = list(sys.path), list(sys.argv), set(sys.modules)
    assert load_job(write("job.py", text), JobSettings(arguments=["hello"])).graph.name == "hello"
    assert (path, argv) == (sys.path, sys.argv)
    assert not [name for name in set(sys.modules) - modules if "job" in name]


def test_files_that_threads_load_at_the_same_time_see_their_own_arguments(write: WriteFile) -> None:
    code = f"import sys, time\n{HEAD}for _ in range(50):\n    time.sleep(0)\n"
    path = write("job.py", code + BODY.format("p") + "p.name = sys.argv[1]\n")
    names = [f"job-{number}" for number in range(20)]
    before = list(sys.path)

    def load(name: str) -> str:
        return load_job(path, JobSettings(arguments=[name])).graph.name

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(load, names)) == names
    assert sys.path == before


def test_a_missing_file_is_reported_with_the_searched_directory(refusal: Refusal) -> None:
    assert refusal(lambda: load_job("nowhere.py")) == (
        f"nowhere.py: there is no such file (looked in {Path.cwd()})"
    )


def test_a_directory_is_not_a_job(tmp_path: Path, refusal: Refusal) -> None:
    assert "this is a directory; name a .py, .yml or .sql file" in refusal(
        lambda: load_job(tmp_path)
    )


def test_an_unknown_suffix_is_refused(write: WriteFile, refusal: Refusal) -> None:
    message = refusal(lambda: load_job(write("job.txt", "")))
    assert "a job is a .py, .yml, .yaml or .sql file, and this is none of them" in message


@pytest.mark.parametrize("text", ["SELECT " + "x" * 5000, "SELECT '" + "\0" * 300])
def test_a_text_that_can_be_no_path_is_refused(text: str, refusal: Refusal) -> None:
    message = refusal(lambda: load_job(text))
    assert message.startswith(text[:60])
    assert "a job is a .py, .yml, .yaml or .sql file" in message
    assert len(message) < 300


def test_an_unreadable_file_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    path = tmp_path / "job.py"
    path.symlink_to(path)
    message = refusal(lambda: load_job(path))
    assert "job.py: it cannot be read: Too many levels of symbolic links" in message


def test_a_file_that_is_not_text_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    path = tmp_path / "job.sql"
    path.write_bytes(b"SELECT '\xff'")
    assert "it is not text in UTF-8; save it as UTF-8" in refusal(lambda: load_job(path))


def test_a_file_that_raises_on_import_shows_the_users_lines_only(write: WriteFile) -> None:
    write("maths.py", "def half(x):\n    return 1 / x\n")
    job = write("job.py", "from maths import half\n\nhalf(0)\n")
    with pytest.raises(InvalidInput) as refused:
        load_job(job, AS_PIPELINE)
    message = str(refused.value)
    assert message.startswith(
        "job.py line 3: the file raised ZeroDivisionError: division by zero\n"
    )
    assert "maths.py" in message
    assert "return 1 / x" in message
    assert "python_file.py" not in message
    assert refused.value.facts["line"] == 3


def test_a_missing_module_is_reported_with_its_line(write: WriteFile, refusal: Refusal) -> None:
    message = refusal(lambda: load_job(write("job.py", "\nimport no_such_thing\n"), AS_PIPELINE))
    assert "job.py line 2: the file raised ModuleNotFoundError: No module named" in message
    assert "give it to the job with --wheel or --py-file" in message


def test_a_syntax_error_is_reported_with_line_and_column(
    write: WriteFile, refusal: Refusal
) -> None:
    message = refusal(lambda: load_job(write("job.py", "x = 1\nfor = 2\n")))
    assert message.startswith("job.py line 2 column 5: this is not Python 3.")
    assert message.endswith("(in: for = 2)")


def test_a_file_that_exits_is_refused(write: WriteFile, refusal: Refusal) -> None:
    message = refusal(lambda: load_job(write("job.py", "import sys\nsys.exit(2)\n"), AS_PIPELINE))
    assert "job.py line 2: it ended the program (exit code 2)" in message


def test_a_fault_of_a_definition_is_reported_with_its_line(write: WriteFile) -> None:
    text = HEAD + "p = Pipeline('p')\np.source('a', format='csv')\np.source('a', format='csv')\n"
    with pytest.raises(InvalidJobGraph) as refused:
        load_job(write("job.py", text))
    assert refused.value.facts["faults"] == [
        "job.py line 4: vertex 'a': the name is used twice (give each vertex a name of its own)"
    ]


def test_a_file_without_a_pipeline_is_refused(write: WriteFile, refusal: Refusal) -> None:
    assert "job.py: there is no Pipeline in it" in refusal(
        lambda: load_job(write("job.py", "x = 1\n"), AS_PIPELINE)
    )


def test_one_of_several_pipelines_is_chosen_by_name(write: WriteFile, refusal: Refusal) -> None:
    path = write("job.py", HEAD + BODY.format("orders") + BODY.format("clicks"))
    assert load_job(f"{path}:orders").graph.name == "orders-job"
    assert load_job(f"{path}:clicks-job").graph.name == "clicks-job"
    assert "there are 2 pipelines in it: clicks, orders; choose one, as in job.py:clicks" in (
        refusal(lambda: load_job(path))
    )
    assert "there is no Pipeline 'order' in it (did you mean 'orders'?)" in refusal(
        lambda: load_job(f"{path}:order")
    )


def test_only_python_files_take_arguments_and_names(write: WriteFile, refusal: Refusal) -> None:
    path = write("job.sql", "SELECT 1")
    assert "it takes no arguments, but got a b; use --param" in refusal(
        lambda: load_job(path, JobSettings(arguments=["a", "b"]))
    )
    assert "only a Python file can hold several jobs" in refusal(lambda: load_job(f"{path}:x"))


def test_params_are_given_as_name_and_value(refusal: Refusal) -> None:
    assert parse_params(["day=2026-11-01", "q=a=b", "e="]) == {
        "day": "2026-11-01",
        "q": "a=b",
        "e": "",
    }
    assert refusal(lambda: parse_params(["day"])) == "--param day: write it as name=value"
    assert "given twice" in refusal(lambda: parse_params(["a=1", "a=2"]))


@pytest.mark.parametrize(
    "file", ["orders_batch.py", "clicks_streaming.py", "revenue.yml", "top_products.sql"]
)
def test_the_examples_are_valid_jobs(file: str) -> None:
    graph = load_job(EXAMPLES / file, JobSettings(params={"out": "/elsewhere"})).graph
    assert graph.parameters["data"] == str(EXAMPLES / "data")
    assert graph.parameters["out"] == "/elsewhere"


def test_a_python_file_without_stoker_is_a_program_and_does_not_run(write: WriteFile) -> None:
    loaded = load_job(write("job.py", "raise SystemExit('never run')\n"))
    assert isinstance(loaded.graph.vertices[0], Program)


def test_a_program_has_no_pipeline_to_choose(write: WriteFile, refusal: Refusal) -> None:
    path = write("job.py", "print(1)\n")
    assert "there is no pipeline 'orders'" in refusal(lambda: load_job(f"{path}:orders"))
    assert load_job(f"{path}:job").graph.name == "job"


def test_a_chosen_pipeline_gets_the_engine_that_its_file_needs(write: WriteFile) -> None:
    uses_rdd = "def f(df):\n    return df.rdd.toDF()\n"
    path = write("job.py", HEAD + uses_rdd + BODY.format("orders"))
    assert engine_of(load_job(path).graph) is EngineKind.CLASSIC
    assert engine_of(load_job(f"{path}:orders").graph) is EngineKind.CLASSIC


def test_a_job_of_any_kind_carries_the_directory_of_its_caller(
    write: WriteFile, tmp_path: Path
) -> None:
    """Only where the job runs is known whether that directory is there."""
    settings = JobSettings(params={"folder": "in"}, directory=tmp_path)
    caller = describe_directory(tmp_path)
    pipeline = load_job(write("job.yml", YAML_WITH_FOLDER), settings).graph
    source = pipeline.vertex("a")
    assert isinstance(source, Source)
    assert isinstance(source.read, FormatRead)
    assert (source.read.path, source.read.was_relative) == (f"{tmp_path}/in/x", True)
    assert pipeline.caller == caller
    others = JobSettings(directory=tmp_path)
    program = write("program.py", "print(1)")
    built = msgspec.structs.replace(pipeline, caller=None)
    for job in (program, SqlText("SELECT 1", "script"), built):
        assert load_job(job, others).graph.caller == caller


def test_a_finished_graph_keeps_its_caller(tmp_path: Path) -> None:
    graph = new_graph(caller=CallerDirectory(path="/there", machine="another"))
    assert load_job(graph, JobSettings(directory=tmp_path)).graph.caller == graph.caller


def test_a_file_and_an_object_become_the_same_job(write: WriteFile) -> None:
    settings = JobSettings(name="same", job_id=JobId("c" * 32), demands={"priority": 7})
    sql = "SELECT 1;\nSELECT 2"
    from_file = load_job(write("script.sql", sql), settings).graph
    from_text = load_job(SqlText(sql, "script"), settings).graph
    (script,) = from_text.vertices
    # Error messages name the file.
    named = msgspec.structs.replace(script, file="script.sql")
    assert msgspec.structs.replace(from_text, vertices=(named,)) == from_file
    assert from_file.priority == 7


def test_an_object_that_is_not_a_job_is_refused(refusal: Refusal) -> None:
    assert "a int is not a job" in refusal(lambda: load_job(7))  # type: ignore[arg-type]
