"""Failing programs on the command line: users see the cause, the exit code and the log."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import wait_until

NEIGHBOUR = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("begun", flush=True)
while not Path(sys.argv[1]).exists():
    assert spark.range(10).count() == 10
    time.sleep(0.5)
"""
STARTS_DAEMON = """
import os, sys, time
from pathlib import Path
pid_file = Path(sys.argv[1])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        pid_file.write_text(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not (pid_file.exists() and pid_file.read_text()):
    time.sleep(0.02)
"""
TALKATIVE = """
line = "x" * 1023
for _ in range(1024 * 1024):
    print(line)
print("the very end")
"""


@pytest.fixture(scope="module", autouse=True)
def neighbour(stoker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A program that runs beside all tests of this module and must not be disturbed."""
    folder = tmp_path_factory.mktemp("neighbour")
    script, enough = folder / "neighbour.py", folder / "enough"
    script.write_text(NEIGHBOUR)
    job = stoker.submit(script, "--engine", "connect", str(enough))
    yield
    enough.touch()
    stoker("wait", job)


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("raise ValueError('no such day')", 1, "ValueError: no such day"),
        ("import os; os._exit(3)", 3, "the program ended with exit code 3"),
        ("import ctypes; ctypes.string_at(0)", 139, "the program was killed by SIGSEGV"),
    ],
)
def test_a_failed_program_is_reported_with_its_cause_exit_code_and_log(
    stoker, tmp_path: Path, source: str, code: int, words: str
) -> None:
    script = tmp_path / "bad.py"
    script.write_text(f"print('begun', flush=True)\n{source}\n")
    done = stoker("run", "--program", "--engine", "connect", script, expect=code)
    assert done.stdout == "begun\n"
    assert words in done.stderr


def test_a_script_that_does_not_parse_is_refused_with_the_place(stoker, tmp_path: Path) -> None:
    script = tmp_path / "bad.py"
    script.write_text("print('fine')\nx = = 3\n")
    done = stoker("run", "--program", script, expect=1)
    assert "bad.py line 2 column 5" in done.stderr


def test_a_daemon_that_a_program_forked_ends_with_the_program(stoker, tmp_path: Path) -> None:
    script, pid_file = tmp_path / "daemon.py", tmp_path / "pid"
    script.write_text(STARTS_DAEMON)
    stoker("run", "--program", "--engine", "connect", script, pid_file)
    wait_until(
        lambda: not Path(f"/proc/{pid_file.read_text()}").exists(), "the process has ended", 40
    )


def test_a_gigabyte_of_output_is_truncated_and_its_end_is_shown(stoker, tmp_path: Path) -> None:
    script = tmp_path / "talkative.py"
    script.write_text(TALKATIVE)
    done = stoker("run", "--program", "--engine", "connect", script)
    assert len(done.stdout) < 100 * 1024**2
    assert "bytes are left out here" in done.stdout
    assert done.stdout.endswith("the very end\n")


def test_a_program_may_delete_the_directory_it_works_in(stoker, tmp_path: Path) -> None:
    folder, script = tmp_path / "folder", tmp_path / "rude.py"
    folder.mkdir()
    script.write_text(
        "import os, shutil, sys\n"
        "from pyspark.sql import SparkSession\n"
        "os.chdir(sys.argv[1])\n"
        "shutil.rmtree(os.getcwd())\n"
        "print(SparkSession.builder.getOrCreate().range(10).count())\n"
    )
    assert stoker("run", "--program", "--engine", "connect", script, folder).stdout == "10\n"


def test_a_missing_spark_master_or_requirement_is_named_in_the_error(
    stoker, tmp_path: Path
) -> None:
    script = tmp_path / "plain.py"
    script.write_text("print('never')\n")
    done = stoker(
        "run", "--program", "--conf", "spark.master=spark://127.0.0.1:1", script, expect=1
    )
    assert "no Spark master is at spark://127.0.0.1:1" in done.stderr
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"{tmp_path}/nothing-1.0-py3-none-any.whl\n")
    done = stoker("run", "--program", "--requirements", requirements, script, expect=1)
    assert "nothing-1.0-py3-none-any.whl" in done.stderr
    assert "the job's requirements cannot be installed" in done.stderr
    assert json.loads(stoker("list", "--json").stdout) != [], "the neighbour still runs"
