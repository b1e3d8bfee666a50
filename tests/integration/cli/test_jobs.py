"""Jobs through the command line, on a cluster of real processes with real Spark."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pyarrow.parquet
import pytest

from builders import wait_until

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"

BROKEN_JOB = """
from stoker import Pipeline

broken = Pipeline("broken")

@broken.source
def numbers(spark):
    return divide_by(0)

def divide_by(number):
    return 1 / number

broken.sink("numbers", name="out", format="noop", mode="overwrite")
"""


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    command = ["python3", str(EXAMPLES / "make_data.py"), str(directory)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return directory


@pytest.mark.parametrize(
    ("file", "results"),
    [
        ("orders_batch.py", {"revenue_by_day": 9, "best_products": 3}),
        ("clicks_streaming.py", {"page_views": 55}),
        ("revenue.yml", {"revenue_by_country": 5}),
        ("top_products.sql", {"top_products": 5}),
    ],
)
def test_every_example_runs_and_leaves_its_results(
    stoker, data: Path, tmp_path: Path, file: str, results: dict[str, int]
) -> None:
    done = stoker("run", EXAMPLES / file, "--param", f"data={data}", "--param", f"out={tmp_path}")
    assert "FINISHED after" in done.stdout
    found = {name: pyarrow.parquet.read_table(tmp_path / name).num_rows for name in results}
    assert found == results


def test_a_job_that_fails_shows_the_users_own_lines(stoker, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN_JOB)
    done = stoker("run", tmp_path / "broken.py", expect=1)
    told = done.stdout.partition("FAILED after")[2].splitlines()[2:]
    assert told[0] == "ZeroDivisionError: division by zero"
    assert told[1] == (
        f"  in source 'numbers', {tmp_path / 'broken.py'} line 11: return 1 / number"
    )
    assert told[2].startswith("  (more: stoker status ")
    assert len(told) == 3
    traced = stoker("run", "--trace", tmp_path / "broken.py", expect=1)
    assert "divide_by" in traced.stdout
    assert "region out, attempt 1, on task-executor-1" in traced.stdout


MISSING_COLUMN = """
from stoker import Pipeline
from pyspark.sql import functions as F

people = Pipeline("people")

@F.udf("double")
def half(age):
    return age / 2

@people.source
def everybody(spark):
    return spark.range(3).toDF("age")

@people.transform
def halves(everybody):
    return everybody.select(half("age").alias("half"))

@people.transform
def adults(halves):
    return halves.filter(F.col({column!r}) > 0)

people.sink("adults", name="out", format="noop", mode="overwrite")
"""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("engine", ["connect", "classic"])
def test_a_udf_with_its_type_in_words_runs_and_a_missing_column_names_the_transform(
    stoker, tmp_path: Path, engine: str
) -> None:
    job = tmp_path / "people.py"
    if engine == "connect":
        # A driver of its own takes long to start: there, the UDF is only used in the plan.
        job.write_text(MISSING_COLUMN.format(column="half"))
        assert "FINISHED after" in stoker("run", job).stdout
    job.write_text(MISSING_COLUMN.format(column="quarter"))
    done = stoker("run", "--engine", engine, job, expect=1)
    told = done.stdout.partition("FAILED after")[2]
    assert "`quarter` cannot be resolved. Did you mean" in told
    assert "in transform 'adults'" in told
    assert f"{job} line 21" in told
    assert "attempts/" not in told
    assert len(told.splitlines()) == 5


def test_a_job_is_listed_shown_and_cancelled(stoker, slow_job: Path) -> None:
    job = stoker.submit(slow_job)
    assert job[:12] in stoker("list").stdout
    wait_until(lambda: "INITIALIZING" in _region_state(stoker, job), "the task starts", 40)
    done = stoker("cancel", job[:8])
    assert done.stdout == f"Job {job} is CANCELED.\n"
    assert stoker("wait", job, expect=1).stdout.startswith(f"Job {job} (slow) CANCELED")


def test_ctrl_c_without_a_terminal_cancels_the_job(stoker, slow_job: Path) -> None:
    with stoker.started("run", slow_job) as run:
        assert run.stderr is not None
        job = run.stderr.readline().split()[1]
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    assert f"Job {job} (slow) CANCELED" in output


def test_ctrl_c_at_a_terminal_asks_before_it_cancels(stoker, slow_job: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(stoker.home)
        os.execve(
            stoker.command[0],
            [*stoker.command, "run", str(slow_job)],
            stoker.environment | {"TERM": "xterm"},
        )
    try:
        _read_until(terminal, "is accepted")
        _read_until(terminal, "RUNNING")
        os.write(terminal, b"\x03")
        _read_until(terminal, "Cancel the job?")
        os.write(terminal, b"y\n")
        _read_until(terminal, "CANCELED after")
        _, status = os.waitpid(pid, 0)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130


def _region_state(stoker, job: str) -> str:
    details = json.loads(stoker("status", job, "--json").stdout)
    return " ".join(region["current"]["state"] for region in details["regions"])


def _read_until(terminal: int, wanted: str) -> None:
    text = ""
    while wanted not in text:
        text += os.read(terminal, 4096).decode(errors="replace")
