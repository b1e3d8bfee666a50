"""The job graph of an uploaded file, as the process that makes it leaves it behind."""

import zipfile
from pathlib import Path

import msgspec
import pytest
from pyspark.cloudpickle import loads

from stoker.core.graph import JobGraph, Program, PythonFunction, Source
from stoker.core.ids import JobId
from stoker.rest.programs.compiler import GRAPH, CompileRequest, _compile

PIPELINE = """
from stoker import Pipeline

job = Pipeline("numbers")

@job.source
def numbers(spark):
    return spark.range(3)

job.sink("numbers", name="out", format="noop")
"""
PROGRAM = "print(1)\n"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compiled(directory: Path, file: str) -> JobGraph:
    _compile(directory, CompileRequest(file=file, job_id=JobId("a" * 32)))
    return msgspec.json.decode((directory / GRAPH).read_bytes(), type=JobGraph)


def test_errors_name_the_uploaded_file_and_not_a_directory_of_the_master(directory: Path) -> None:
    (directory / "job.py").write_text(PIPELINE)
    source = compiled(directory, "job.py").vertices[0]
    assert isinstance(source, Source)
    assert isinstance(source.read, PythonFunction)
    assert loads(source.read.payload).__code__.co_filename == "job.py"
    (directory / "prog.py").write_text(PROGRAM)
    program = compiled(directory, "prog.py").vertices[0]
    assert isinstance(program, Program)
    assert program.path == "prog.py"


def test_a_program_in_an_archive_is_named_with_its_archive(directory: Path) -> None:
    with zipfile.ZipFile(directory / "sums.zip", "w") as archive:
        archive.writestr("__main__.py", PROGRAM)
    graph = compiled(directory, "sums.zip")
    program = graph.vertices[0]
    assert isinstance(program, Program)
    assert (graph.name, program.path) == ("sums", "sums.zip/__main__.py")
