"""Misbehaving tasks fail with the cause and leave no processes or files behind."""

# Functions that are sent to a runner contain their own imports.
# ruff: noqa: PLC0415

import asyncio
import os
import signal
from pathlib import Path

import pytest

from builders import build_graph, eventually
from integration.engine.bench import TEN_ROWS, TO_NOWHERE, Bench, python_job
from integration.engine.processes import PATIENCE, is_gone
from stoker.core.graph import JobGraph, ResourceProfile
from stoker.core.results import Failure
from stoker.core.states import ExecutionState

pytestmark = pytest.mark.asyncio(loop_scope="session")

MEGABYTE = 1024**2


SMALL = ResourceProfile(memory_bytes=300 * MEGABYTE)


async def failure_beside_a_neighbour(bench: Bench, graph: JobGraph) -> Failure:
    """Run a good task at the same time, which must not be affected."""
    bad, good = await asyncio.gather(bench.run(graph), bench.run(build_graph(TEN_ROWS, TO_NOWHERE)))
    assert good.state is ExecutionState.FINISHED, good.failure
    assert bad.state is ExecutionState.FAILED
    assert bad.failure is not None
    return bad.failure


async def test_a_crash_of_the_interpreter_is_reported_with_its_signal(bench: Bench) -> None:
    def crash(spark):
        import ctypes

        ctypes.string_at(0)

    failure = await failure_beside_a_neighbour(bench, python_job(crash))
    assert failure.error == "RunnerDied"
    assert "SIGSEGV" in failure.message


async def test_endless_allocation_fails_as_out_of_memory_with_the_users_own_line(
    bench: Bench,
) -> None:
    def greedy(spark):
        hoard = []
        while True:
            hoard.append(bytearray(16 * 1024 * 1024))

    failure = await failure_beside_a_neighbour(bench, python_job(greedy, profile=SMALL))
    assert failure.error == "OutOfMemory"
    assert "300 MB" in failure.message
    assert "runner.memory" in failure.message
    assert "hoard.append" in failure.stack_trace


async def test_memory_of_child_processes_counts_towards_the_limit_of_the_task(bench: Bench) -> None:
    def greedy_family(spark):
        import subprocess
        import sys

        body = "import time; hoard = b'x' * (150 * 1024 * 1024); time.sleep(600)"
        for child in [subprocess.Popen([sys.executable, "-c", body]) for _ in range(3)]:
            child.wait()

    failure = await failure_beside_a_neighbour(bench, python_job(greedy_family, profile=SMALL))
    assert failure.error == "OutOfMemory"


async def test_a_task_with_too_many_processes_is_killed_with_all_of_them(bench: Bench) -> None:
    def prolific(spark):
        import subprocess
        import time

        for _ in range(60):
            subprocess.Popen(["sleep", "600"])
        time.sleep(600)

    failure = await failure_beside_a_neighbour(bench, python_job(prolific))
    assert failure.error == "TooManyProcesses"
    assert "40 are allowed" in failure.message


async def test_a_task_with_too_many_open_files_fails_with_that_reason(bench: Bench) -> None:
    def careless(spark):
        held = [open("/dev/null") for _ in range(3000)]  # noqa: SIM115
        return spark.range(len(held))

    failure = await failure_beside_a_neighbour(bench, python_job(careless))
    assert failure.error == "TooManyOpenFiles"
    assert "it may have 2000" in failure.message
    assert "runner.open-files" in failure.message


def write_to_sockets(data: bytes) -> None:
    """Write to every socket of this process, one of which leads to the task executor."""
    import os
    import socket

    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                end = socket.socket(fileno=os.dup(int(name)))
                if end.family == socket.AF_UNIX:
                    end.sendall(data)
        except OSError:
            continue


async def test_a_task_that_writes_to_the_runners_socket_fails_and_harms_nobody(
    bench: Bench,
) -> None:
    def forger(spark):
        import time

        write_to_sockets(b"\0\0\0\1\xc1")
        time.sleep(600)

    failure = await failure_beside_a_neighbour(bench, python_job(forger))
    assert failure.error == "MalformedReport"


async def test_a_task_that_announces_a_huge_report_fails_before_it_is_read(bench: Bench) -> None:
    def forger(spark):
        import time

        write_to_sockets(b"\xff\xff\xff\xff" + b"x" * 1000)
        time.sleep(600)

    failure = await failure_beside_a_neighbour(bench, python_job(forger))
    assert failure.error == "MalformedReport"
    assert "16777216 are allowed" in failure.message


async def test_a_process_whose_task_claims_to_have_left_nothing_takes_no_other_task(
    bench: Bench, tmp_path: Path
) -> None:
    """The next job would run in a process that this job's code controls."""
    pid_file = tmp_path / "pid"

    def forger(spark):
        import os
        import struct
        import time

        import msgspec

        from stoker.core.states import ExecutionState
        from stoker.engine.protocol import Ended, SessionKept

        pid_file.write_text(str(os.getpid()))
        for message in (Ended(state=ExecutionState.FINISHED), SessionKept()):
            body = msgspec.msgpack.encode(message)
            write_to_sockets(struct.pack(">I", len(body)) + body)
        time.sleep(600)

    outcome = await bench.run(python_job(forger))
    assert outcome.state is ExecutionState.FINISHED
    await eventually(lambda: is_gone(int(pid_file.read_text())), seconds=PATIENCE)


async def test_a_task_does_not_see_the_environment_of_its_task_executor(
    bench: Bench, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"

    def curious(spark):
        import os

        seen.write_text(os.environ.get("PYTEST_VERSION", "nothing"))
        seen.with_name("server").write_text(
            spark.sql("SELECT java_method('java.lang.System', 'getenv', 'PATH')").collect()[0][0]
        )
        return spark.range(1)

    assert "PYTEST_VERSION" in os.environ
    outcome = await bench.run(python_job(curious))
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    assert seen.read_text() == "nothing"
    assert seen.with_name("server").read_text() == os.environ["PATH"]


async def test_temporary_files_of_a_task_are_created_in_its_directory(
    bench: Bench, tmp_path: Path
) -> None:
    paths_file = tmp_path / "paths_file"

    def untidy(spark):
        import subprocess
        import tempfile

        made = tempfile.mkstemp()[1], tempfile.mkdtemp()
        child = subprocess.run(["mktemp"], capture_output=True, text=True, check=True)
        paths_file.write_text("\n".join([*made, child.stdout.strip()]))
        return spark.range(1)

    launched = await bench.launch(python_job(untidy))
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    for path in paths_file.read_text().splitlines():
        assert Path(path).is_relative_to(launched.directory)


async def test_a_daemon_that_a_task_forked_ends_with_the_task(bench: Bench, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    def leaves_a_daemon(spark):
        import os
        import time

        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                pid_file.write_text(str(os.getpid()))
                time.sleep(600)
            os._exit(0)
        while not (pid_file.exists() and pid_file.read_text()):
            time.sleep(0.01)
        return spark.range(10)

    outcome = await bench.run(python_job(leaves_a_daemon))
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    assert is_gone(int(pid_file.read_text()))


async def test_processes_started_by_sparks_python_workers_end_with_the_task(
    bench: Bench, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"

    def leaves_a_daemon(spark):
        from pyspark.sql.functions import udf

        @udf("long")
        def start(value):
            import os
            import subprocess

            child = subprocess.Popen(["sleep", "600"], start_new_session=True)
            with pids.open("a") as file:
                file.write(f"{child.pid} {os.getpid()} {os.getppid()}\n")
            return value

        return spark.range(1).select(start("id").alias("id"))

    outcome = await bench.run(python_job(leaves_a_daemon))
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    for pid in pids.read_text().split():
        assert is_gone(int(pid)), "the child, its worker, or the daemon that forks workers"


async def test_the_beginning_and_the_end_of_excessive_output_are_kept(bench: Bench) -> None:
    def prints_a_lot(spark):
        import sys

        print("the very beginning")
        line = "x" * 1023 + "\n"
        for _ in range(1024):
            sys.stdout.write(line * 1024)
        print("the very end")
        raise ValueError("said enough")

    launched = await bench.launch(python_job(prints_a_lot))
    outcome = await launched.running.outcome()
    assert outcome.failure is not None
    assert "said enough" in outcome.failure.message
    log = (launched.directory / "stdout.log").read_bytes()
    assert len(log) < 9 * MEGABYTE
    assert log.startswith(b"the very beginning")
    assert log.endswith(b"the very end\n")


async def test_a_task_that_deletes_its_directory_keeps_running(bench: Bench) -> None:
    def destructive(spark):
        import os
        import shutil

        shutil.rmtree(os.getcwd())
        return spark.range(10)

    outcome = await bench.run(python_job(destructive))
    assert outcome.state is ExecutionState.FINISHED, outcome.failure


async def test_no_daemon_of_a_task_outlives_the_zygote(bench: Bench, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    def leaves_a_daemon(spark):
        import subprocess
        import time

        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        pid_file.write_text(str(child.pid))
        time.sleep(600)

    launched = await bench.launch(python_job(leaves_a_daemon))
    await eventually(lambda: pid_file.exists() and pid_file.read_text() != "", seconds=PATIENCE)
    os.kill(int(bench.engine.description["zygote-pid"]), signal.SIGTERM)
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FAILED
    await eventually(lambda: is_gone(int(pid_file.read_text())), seconds=PATIENCE)
