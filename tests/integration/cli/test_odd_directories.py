"""Directories whose names shells, URLs, Java and Spark misread: for the cluster and for jobs.

The cluster of this folder runs in such a directory, so all other tests here try it as well.
Pipelines, scripts and programs in such a directory are in `test_relative_paths.py`.
"""

import os
from pathlib import Path

import pytest

from builders import ODD_NAME, wait_until
from integration.cli.conftest import CommandLine
from integration.cli.test_relative_paths import rows

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


def test_a_stream_ends_with_a_savepoint(
    stoker: CommandLine, project: Path, no_leftovers: None
) -> None:
    (project / "job.py").write_text(STREAM)
    job = stoker("run", "-d", "job.py", "--param", f"root={project}", cwd=project).stdout.strip()
    wait_until(lambda: rows(project / "out") == 2, "the first batch is written", 120)
    saved = stoker("stop", job, "--savepoint-path", "saved", cwd=project).stdout.strip()
    assert Path(saved).parent == project / "saved"
    assert Path(saved).is_dir()


def test_the_demonstration_runs(stoker: CommandLine) -> None:
    """Its cluster, data and results are below the directory of temporary files."""
    assert stoker.environment["TMPDIR"] == str(stoker.home)
    before = set(os.listdir(stoker.home))
    stoker("demo")
    assert set(os.listdir(stoker.home)) == before
