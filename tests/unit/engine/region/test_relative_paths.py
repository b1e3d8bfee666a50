"""Relative paths of a job, made absolute or refused."""

from pathlib import Path

import pytest

from builders import build_graph
from stoker.core.graph import (
    CallerDirectory,
    FormatRead,
    FormatWrite,
    Program,
    Sink,
    Source,
    Sql,
    caller_of,
)
from stoker.core.spark_paths import describe_directory, with_absolute_paths
from stoker.engine.failures import CannotRun
from stoker.engine.region.relative_paths import RelativePaths

ELSEWHERE = RelativePaths(CallerDirectory(path="/home/me/project", machine="another", inode=1))


@pytest.fixture
def here(tmp_path: Path) -> RelativePaths:
    return RelativePaths(describe_directory(tmp_path))


@pytest.mark.parametrize(
    ("read", "path"),
    [
        (FormatRead(format="json", path="in/x"), "{here}/in/x"),
        (FormatRead(format="JSON", path="in/*.json"), "{here}/in/*.json"),
        (FormatRead(format="json", path="/in"), "/in"),
        (FormatRead(format="json", path="s3://bucket/in"), "s3://bucket/in"),
        (FormatRead(format="json", path="file:/in"), "file:/in"),
        (FormatRead(format="iceberg", path="db.table"), "db.table"),
        (FormatRead(format="rate"), None),
    ],
)
def test_the_path_of_a_source_or_sink_of_files_becomes_absolute(
    here: RelativePaths, tmp_path: Path, read: FormatRead, path: str | None
) -> None:
    options = {"Path": "out", "sep": "a/b"}
    sinks = [
        Sink(name="b", input="a", write=FormatWrite(format="csv", path="out")),
        Sink(name="c", input="a", write=FormatWrite(format="csv", options=options)),
    ]
    located = with_absolute_paths(build_graph(Source(name="a", read=read), *sinks), here.absolute)
    assert located.vertex("a").read.path == (path and path.format(here=tmp_path))
    assert located.vertex("b").write.path == f"{tmp_path}/out"
    assert located.vertex("c").write.options == {"Path": f"{tmp_path}/out", "sep": "a/b"}


def test_a_graph_without_paths_is_unchanged() -> None:
    graph = build_graph(Source(name="a", read=Sql(query="SELECT 1")))
    assert with_absolute_paths(graph, ELSEWHERE.absolute) is graph


def test_a_relative_path_of_a_caller_elsewhere_is_refused_with_place_and_remedy() -> None:
    """On this machine the path would mean another file, and an output would be lost."""
    sink = Sink(name="out", input="a", write=FormatWrite(format="csv", path="out"))
    with pytest.raises(CannotRun) as refusal:
        with_absolute_paths(build_graph(sink), ELSEWHERE.absolute)
    message = refusal.value.message
    assert "sink 'out': the path out is relative" in message
    assert "/home/me/project, is not on the machine" in message
    assert "name an absolute path or a URL" in message


def test_a_path_that_became_absolute_elsewhere_is_refused_too(here: RelativePaths) -> None:
    """A directory of the same name on this machine is not the one that was meant."""
    write = FormatWrite(format="csv", path="/home/me/project/out", was_relative=True)
    graph = build_graph(Sink(name="out", input="a", write=write))
    assert with_absolute_paths(graph, here.absolute) is graph
    with pytest.raises(CannotRun, match="the path /home/me/project/out is relative"):
        with_absolute_paths(graph, ELSEWHERE.absolute)


def test_a_job_without_a_caller_may_have_no_relative_path() -> None:
    paths = RelativePaths(None)
    assert paths.absolute("/x", "spark.read") == "/x"
    with pytest.raises(CannotRun, match="does not say to which directory it belongs"):
        paths.absolute("x", "spark.read")


def test_an_older_record_of_a_program_names_its_directory(tmp_path: Path) -> None:
    graph = build_graph(Program(name="program", script="job.py", directory=str(tmp_path)))
    assert RelativePaths(caller_of(graph)).base == tmp_path


def test_a_path_that_spark_did_not_find_is_told_with_what_it_was_relative_to(
    here: RelativePaths, tmp_path: Path
) -> None:
    declared, other = str(tmp_path / "inn"), str(tmp_path / "a b" / "x")
    here.absolute(declared, "source", was_relative=True)
    here.prefix("a b/x", "spark.read")
    for path, written in ((declared, "inn"), (other.replace(" ", "%20"), "a b/x")):
        hint = here.hint(f"[PATH_NOT_FOUND] Path does not exist: file:{path}. SQLSTATE: 42K03")
        assert hint is not None
        assert hint.startswith(f"{written} is relative to {tmp_path}, the directory in which")
        assert hint.endswith(f"${{job_directory}}/{written}")
    assert (
        here.hint("[PATH_NOT_FOUND] Path does not exist: file:/given/so. SQLSTATE: 42K03") is None
    )
    assert here.hint("another error") is None
