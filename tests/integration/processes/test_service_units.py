"""The units for systemd: checked by its own tools, and jobs run within what they allow."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from stoker.cli.main import cli
from stoker.config.options import ALL
from stoker.config.processes import MasterOptions
from stoker.config.sources import settings_on_command_line
from stoker.config.tree import OptionTree

ROOT = Path(__file__).parents[3]
UNITS = sorted((ROOT / "docs" / "systemd").glob("*.service"))
EXECUTABLE = "/opt/stoker/.venv/bin/stoker"
MOST_EXPOSURE = 20
"""Of 100, as systemd-analyze counts it: 1.5 of 10 at present. What is left is what Stoker needs:
sockets, memory that is written and executed by the JVM, and /proc."""
CONFINED = Path(__file__).with_name("confined.py")
JOB = """
from stoker import Pipeline
from pyspark.sql.functions import udf

rows = Pipeline("rows", parameters={"out": ""})

@rows.source
def numbers(spark):
    return spark.range(100).withColumn("twice", udf(lambda x: 2 * x, "long")("id"))

rows.sink("numbers", name="out", format="parquet", path="${out}", mode="overwrite")
"""
PROGRAM = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print("the sum is", spark.sparkContext.parallelize(range(10)).map(lambda x: 2 * x).sum())
"""

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="NOT TESTED: systemd is not installed here"
)


def by_name(unit: Path) -> str:
    return unit.name


def settings_of(unit: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in unit.read_text().splitlines() if "=" in line)
    return {key: value for key, _, value in pairs}


@pytest.fixture
def instance(unit: Path, tmp_path: Path) -> Path:
    """The unit as an instance, with a program that exists."""
    placed = tmp_path / unit.name.replace("@", "@1")
    placed.write_text(unit.read_text().replace(EXECUTABLE, sys.executable))
    return placed


@pytest.mark.parametrize("unit", UNITS, ids=by_name)
def test_a_unit_starts_a_command_with_options_that_exist(unit: Path) -> None:
    words = settings_of(unit)["ExecStart"].replace("%i", "1").split()
    assert words[0] == EXECUTABLE
    assert words[1] in cli.list_commands(click.Context(cli))
    definitions = [word for word in words[2:] if word != "-D"]
    tree = OptionTree(ALL)
    for definition in definitions:
        assert settings_on_command_line([definition])
        assert definition.partition("=")[0] in tree.by_key


def test_the_units_give_processes_the_time_that_they_take_to_end() -> None:
    assert [unit.name for unit in UNITS] == [
        "stoker-master@.service",
        "stoker-task-executor@.service",
    ]
    master = int(settings_of(UNITS[0])["TimeoutStopSec"])
    assert master > MasterOptions().shutdown_timeout.total_seconds()
    assert settings_of(UNITS[1])["KillMode"] == "mixed"


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=by_name)
def test_systemd_finds_no_fault_in_a_unit(instance: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(instance)],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if instance.name in line]
    assert (done.returncode, ours) == (0, [])


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=by_name)
def test_a_unit_takes_away_what_stoker_does_not_need(instance: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    done = subprocess.run(
        [*command, f"--threshold={MOST_EXPOSURE}", str(instance)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"exposure level for \S+: \d", done.stdout)


def _has_seccomp() -> bool:
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return False
    return True


@needs_systemd
@pytest.mark.skipif(
    os.geteuid() != 0 or not _has_seccomp(),
    reason="NOT TESTED: without root or libseccomp nothing can be taken away",
)
@pytest.mark.timeout(600)
def test_jobs_of_both_engines_run_with_what_a_unit_leaves(tmp_path: Path) -> None:
    """A task executor, its Spark, its drivers and Python workers, and a master."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "program.py").write_text(PROGRAM)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("STOKER_")}

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        stoker = [sys.executable, "-m", "stoker.cli.main", "run"]
        return subprocess.run(
            [sys.executable, str(CONFINED), str(UNITS[1]), *stoker, *arguments],
            env=kept | {"STOKER_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    done = run("job.py", "--param", f"out={tmp_path / 'rows'}")
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "rows").glob("*.parquet"))
    done = run("program.py")
    assert done.returncode == 0, done.stderr
    assert "the sum is 90" in done.stdout


@needs_systemd
@pytest.mark.skipif(
    os.geteuid() != 0 or not _has_seccomp(),
    reason="NOT TESTED: without root or libseccomp nothing can be taken away",
)
def test_what_a_unit_takes_away_is_gone(tmp_path: Path) -> None:
    """Otherwise the test before would prove nothing."""
    program = (
        "import os, ctypes\n"
        f"open({str(tmp_path / 'file')!r}, 'w').close()\n"
        "for call in (lambda: os.chown('file', 1, 1), lambda: os.setuid(1)):\n"
        "    try:\n"
        "        call()\n"
        "    except PermissionError:\n"
        "        print('refused')\n"
        "print(ctypes.CDLL(None).mount(b'x', b'/mnt', b'tmpfs', 0, None))\n"
    )
    done = subprocess.run(
        [sys.executable, str(CONFINED), str(UNITS[0]), sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["refused", "refused", "-1"], done.stderr
