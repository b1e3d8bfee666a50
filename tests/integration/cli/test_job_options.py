"""Job options given on the command line, on real processes with real Spark."""

import json
import os
from pathlib import Path

import pytest

from builders import wait_until
from integration.cli.conftest import CommandLine
from integration.cli.distinct_stream import DistinctStream

pytestmark = pytest.mark.usefixtures("no_leftovers")

RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
OVERRIDES = "pipeline.jobvertex-parallelism-overrides"
PATIENCE = 120

PARTITIONS = """
from stoker import Pipeline

partitions = Pipeline("partitions", configuration={{"{key}": "counted:7"}})

@partitions.source
def numbers(spark):
    return spark.range(100)

@partitions.transform
def counted(spark, numbers):
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    return numbers.selectExpr(f"{{partitions}} AS partitions").distinct()

partitions.sink("counted", name="out", format="json", path="{out}", mode="overwrite")
"""


def test_an_attached_job_is_cancelled_when_its_command_is_killed(
    stoker: CommandLine, slow_job: Path
):
    with stoker.started(
        *("run", "-sae", slow_job, "--name", "bound", "--param", "seconds=600"),
        *("-D", "client.heartbeat.timeout=5 s", "-D", "client.heartbeat.interval=1 s"),
    ):
        wait_until(lambda: states(stoker, "bound") == ["RUNNING"], "the job runs", PATIENCE)
    wait_until(lambda: states(stoker, "bound") == ["CANCELED"], "the job is cancelled", PATIENCE)


def states(stoker: CommandLine, name: str) -> list[str]:
    jobs = json.loads(stoker("list", "--all", "--json").stdout)
    return [job["state"] for job in jobs if job["name"] == name]


def test_a_parallelism_override_sets_the_number_of_shuffle_partitions(
    stoker: CommandLine, tmp_path: Path
):
    """The vertex that the override names has seven partitions (DISP-23)."""
    job = tmp_path / "partitions.py"
    job.write_text(PARTITIONS.format(key=OVERRIDES, out=tmp_path / "out"))
    stoker("run", job)
    (row,) = [
        json.loads(line)
        for path in (tmp_path / "out").glob("*.json")
        for line in path.read_text().splitlines()
    ]
    assert row == {"partitions": 7}


@pytest.mark.skipif(
    os.environ.get("TEST_SAVEPOINTS") != "long",
    reason="minutes on a busy machine: TEST_SAVEPOINTS=long",
)
@pytest.mark.timeout(600)
def test_a_cancelled_job_retains_its_last_checkpoint_unless_its_option_says_otherwise(
    stoker: CommandLine, tmp_path: Path
):
    """The next job can start from it (CKPT-09)."""
    stream = DistinctStream(tmp_path / "stream")
    stream.write(5)
    kept = stoker.submit(stream.version("kept-1"))
    wait_until(lambda: stream.is_caught_up, "all input is in the output", PATIENCE)
    stoker("cancel", kept)
    retained = checkpoints(stoker, kept)["retained"]
    assert Path(retained["path"].removeprefix("file://")).is_dir()
    stream.write(4)
    none = {RETENTION: "NO_EXTERNALIZED_CHECKPOINTS"}
    second = stoker.submit(stream.version("kept-2", configuration=none), "-s", retained["path"])
    wait_until(lambda: stream.is_caught_up, "all input is in the output", PATIENCE)
    stoker("cancel", second)
    assert checkpoints(stoker, second)["retained"] is None


def checkpoints(stoker: CommandLine, job: str) -> dict[str, dict[str, str]]:
    status: dict[str, dict[str, dict[str, str]]] = json.loads(
        stoker("status", job, "--json").stdout
    )
    return status["checkpoints"]
