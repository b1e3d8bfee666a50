"""Directories whose names shells, URLs, Java and Spark misread: for the cluster and for jobs.

The cluster of this folder runs in such a directory, so all other tests here try it as well.
Pipelines, scripts and programs in such a directory are in `test_relative_paths.py`.
"""

import os
from pathlib import Path

import pytest

from builders import ODD_NAME, wait_until
from integration.cli.conftest import CommandLine
from integration.cli.test_relative_paths import ENGINES, rows

STREAM = """
from stoker import Pipeline

people = Pipeline("odd-stream", parameters={"root": None})
people.source(
    "raw", format="csv", path="${root}/in", schema="name STRING, age INT", header=True,
    streaming=True,
)
people.transform("counts", sql="SELECT name, count(*) AS n FROM raw GROUP BY name")

@people.sink("counts", mode="update", trigger="100 milliseconds")
def write(df, batch_id, params):
    df.write.mode("overwrite").csv(f"{params['root']}/out/{batch_id}")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / ODD_NAME
    (directory / "in").mkdir(parents=True)
    (directory / "in" / "people.csv").write_text("name,age\nana,30\nben,40\n")
    return directory


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stream_continues_from_its_savepoint(
    stoker: CommandLine, project: Path, no_leftovers: None, engine: str
) -> None:
    (project / "job.py").write_text(STREAM)
    options = ("--param", f"root={project}", "--engine", engine)
    first = stoker("run", "-d", "job.py", *options, cwd=project).stdout.strip()
    wait_until(lambda: rows(project / "out") == 2, "the first batch is written", 60)
    saved = stoker("stop", first, "--savepoint-path", "saved", cwd=project).stdout.strip()
    (project / "in" / "more.csv").write_text("name,age\nana,31\n")
    second = stoker("run", "-d", "job.py", *options, "-s", saved, cwd=project).stdout.strip()
    wait_until(lambda: any_count(project / "out", "ana,2"), "the count goes on", 60)
    stoker("cancel", second)


def any_count(directory: Path, line: str) -> bool:
    return any(line in file.read_text().splitlines() for file in directory.rglob("part-*"))


def test_the_demonstration_runs(stoker: CommandLine) -> None:
    """Its cluster, data and results are below the directory of temporary files."""
    assert stoker.environment["TMPDIR"] == str(stoker.home)
    before = set(os.listdir(stoker.home))
    stoker("demo")
    assert set(os.listdir(stoker.home)) == before
