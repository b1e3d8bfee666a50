"""Spark's Python workers print, and work, where their present task wants it.

The module redirects the streams of its process, so each test is a process of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

from stoker.engine.python_worker import stoker_python_daemon
from stoker.engine.python_worker.stoker_python_daemon import PIPES

FOLDER = Path(stoker_python_daemon.__file__).parent
BEGIN = """
import os
import sys
from pyspark import daemon
from pyspark.taskcontext import BarrierTaskContext, TaskContext
import stoker_python_daemon as ours

def task(directory, place=""):
    properties = {ours.DIRECTORY: directory} if directory else {}
    properties[ours.WORKING_DIRECTORY] = place
    TaskContext._setTaskContext(TaskContext(localProperties=properties))

def run(steps):
    daemon.worker = lambda connection, authenticated: steps() or 0
    ours.follow_tasks(ours.WorkerStreams(), ours.WorkingDirectory())
    daemon.worker(None, True)
"""


def run_worker(code: str, directory: Path | None = None, **variables: str) -> str:
    """Run the code in a process that finds the daemon's module as Spark's workers do."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code],
        env=kept | {"PYTHONPATH": str(FOLDER), "PYTHONUNBUFFERED": "1"} | variables,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def make_pipes(directory: Path) -> list[int]:
    """Pipes that hold what is written; the descriptors read them without waiting."""
    directory.mkdir()
    found = []
    for name in PIPES:
        os.mkfifo(directory / name)
        found.append(os.open(directory / name, os.O_RDWR | os.O_NONBLOCK))
    return found


def test_each_task_prints_into_its_own_pipes(tmp_path: Path) -> None:
    first, second = make_pipes(tmp_path / "a"), make_pipes(tmp_path / "b")
    spark = run_worker(f"""
def steps():
    print("before")
    task({str(tmp_path / "a")!r})
    print("one")
    print("oops", file=sys.stderr)
    os.system("echo from a child process")
    task({str(tmp_path / "b")!r})
    print("two", end="")
    TaskContext._setTaskContext(None)
    task("")
    print("after")
run(steps)
""")
    assert os.read(first[0], 1000) == b"one\nfrom a child process\n"
    assert os.read(first[1], 1000) == b"oops\n"
    assert os.read(second[0], 1000) == b"two"
    assert spark == "before\nafter\n"
    for descriptor in (*first, *second):
        os.close(descriptor)


def test_a_task_whose_attempt_is_over_prints_where_spark_does(tmp_path: Path) -> None:
    spark = run_worker(f"""
def steps():
    task({str(tmp_path / "gone")!r})
    print("late")
run(steps)
""")
    assert spark == "late\n"


def test_a_worker_works_where_its_task_does_or_where_spark_started_it(tmp_path: Path) -> None:
    for name in ("session", "caller", "elsewhere"):
        (tmp_path / name).mkdir()
    places = run_worker(
        f"""
def steps():
    task("", {str(tmp_path / "caller")!r})
    print(os.getcwd())
    os.chdir({str(tmp_path / "elsewhere")!r})
    task("", {str(tmp_path / "caller")!r})
    print(os.getcwd())
    task("")
    print(os.getcwd())
    task("", {str(tmp_path / "gone")!r})
    print(os.getcwd())
run(steps)
""",
        tmp_path / "session",
    )
    names = [Path(line).name for line in places.splitlines()]
    assert names == ["caller", "caller", "session", "session"]


def test_the_workers_of_a_driver_work_where_its_environment_says(tmp_path: Path) -> None:
    """Tasks of RDDs carry no settings of a session."""
    place = run_worker(
        "def steps():\n    task('')\n    print(os.getcwd())\nrun(steps)",
        PYTHON_WORKER_DIRECTORY=str(tmp_path),
    )
    assert place == f"{tmp_path}\n"


def test_the_last_words_of_a_worker_that_fails_are_printed(tmp_path: Path) -> None:
    out, err = make_pipes(tmp_path / "a")
    run_worker(f"""
def steps():
    task({str(tmp_path / "a")!r})
    print("no newline", end="")
    sys.exit(-1)
try:
    run(steps)
except SystemExit:
    os._exit(0)
""")
    assert os.read(out, 1000) == b"no newline"
    os.close(out)
    os.close(err)


def test_the_module_needs_no_stoker() -> None:
    source = (FOLDER / "stoker_python_daemon.py").read_text()
    assert "import stoker" not in source
    assert "from stoker" not in source


def test_its_folder_offers_no_other_module_to_the_workers() -> None:
    """The folder is on the search path of user code, whose own modules must not be hidden."""
    names = {path.name for path in FOLDER.iterdir()} - {"__pycache__"}
    assert names == {"__init__.py", "stoker_python_daemon.py"}
