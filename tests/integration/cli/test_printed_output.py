"""What a pipeline prints is shown by `stoker run`, as the output of a program is."""

import json
from pathlib import Path

import pytest

from integration.cli.conftest import CommandLine

PRINTING = """
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType
from stoker import Pipeline

printing = Pipeline("printing")

def double(number):
    print("worker", number)
    return 2 * number

@printing.source
def numbers(spark):
    print("source")
    return spark.range(2)

@printing.transform
def doubled(numbers):
    found = numbers.select(udf(double, LongType())("id").alias("twice"))
    found.show()
    return found

printing.sink("doubled", name="out", format="noop", mode="overwrite")
"""


@pytest.fixture
def printing(tmp_path: Path) -> Path:
    path = tmp_path / "printing.py"
    path.write_text(PRINTING)
    return path


def check(output: str) -> None:
    lines = output.splitlines()
    assert "source" in lines
    assert "|twice|" in lines
    assert {"worker 0", "worker 1"} <= set(lines)


def test_what_a_pipeline_prints_is_shown_and_kept_in_the_logs(stoker, printing: Path) -> None:
    done = stoker("run", printing)
    check(done.stdout)
    job = next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("Job "))
    check(stoker("logs", job).stdout)


def test_without_a_cluster_everything_is_shown_before_the_temporary_one_goes(
    tmp_path: Path, printing: Path
) -> None:
    check(CommandLine(tmp_path)("run", printing).stdout)


def test_in_json_the_output_of_a_job_does_not_mix_with_the_answer(stoker, printing: Path) -> None:
    assert json.loads(stoker("run", "--json", printing).stdout)["status"] == "FINISHED"


def test_the_failure_of_a_pipeline_is_told_once(stoker, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(PRINTING.replace("found.show()", "raise ValueError('no such day')"))
    done = stoker("run", path, expect=1)
    assert (done.stdout + done.stderr).count("ValueError: no such day") <= 2
    assert "Traceback" not in done.stderr
