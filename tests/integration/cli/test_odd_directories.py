"""Directories whose names shells, URLs, Java and Spark misread: for the cluster and for jobs.

The cluster of this folder runs in such a directory, so all other tests here try it as well.
Pipelines, scripts and programs in such a directory are in `test_relative_paths.py`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import ODD_NAME, wait_until
from integration.cli.conftest import CommandLine, running_cluster
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


@pytest.fixture
def with_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    home = tmp_path_factory.mktemp("ensemble") / ODD_NAME
    home.mkdir()
    yield from running_cluster(home, "--zookeeper", "1", "--masters", "2")


@pytest.mark.timeout(400)
def test_a_stream_of_the_classic_engine_on_a_cluster_with_zookeeper(
    with_zookeeper: CommandLine, project: Path
) -> None:
    """It survives the death of a master, is stopped with a savepoint, and goes on from there."""
    stoker = with_zookeeper
    (project / "job.py").write_text(STREAM)
    arguments = ("run", "-d", "--engine", "classic", "job.py", "--param", f"root={project}")
    job = stoker(*arguments, cwd=project).stdout.strip()
    wait_until(lambda: rows(project / "out") == 2, "the first batch is written", 150)
    stoker.kill("master-1")
    stoker("cluster", "up")
    saved = stoker("stop", job, cwd=project).stdout.strip()
    assert Path(saved).parent == stoker.directory / "savepoints"
    (project / "in" / "more.csv").write_text("name,age\nchloe,50\n")
    stoker(*arguments, "-s", saved, cwd=project)
    wait_until(lambda: rows(project / "out") == 3, "the next batch is written", 150)


def test_the_demonstration_runs(stoker: CommandLine) -> None:
    """Its cluster, data and results are below the directory of temporary files."""
    assert stoker.environment["TMPDIR"] == str(stoker.home)
    before = set(os.listdir(stoker.home))
    stoker("demo")
    assert set(os.listdir(stoker.home)) == before
