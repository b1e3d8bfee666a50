"""What workers write into the pipes of an attempt appears in the output of its runner."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from stoker.engine.python_worker.stoker_python_daemon import PIPES, open_pipe
from stoker.engine.runner.worker_output import WorkerOutput


@pytest.fixture
def output(tmp_path: Path) -> Any:
    made = WorkerOutput(tmp_path)
    made.start()
    yield made
    made.close()


def write(directory: Path, name: str, data: bytes) -> None:
    pipe = open_pipe(str(directory), name)
    assert pipe is not None
    os.write(pipe, data)
    os.close(pipe)


def test_everything_printed_before_the_end_is_copied(
    output: WorkerOutput, tmp_path: Path, capfdbinary: Any
) -> None:
    write(tmp_path, PIPES[0], b"one\n")
    write(tmp_path, PIPES[1], b"oops\n")
    write(tmp_path, PIPES[0], b"two\n")
    output.close()
    out, err = capfdbinary.readouterr()
    assert (out, err) == (b"one\ntwo\n", b"oops\n")


def test_more_than_the_pipe_holds_is_copied_while_it_is_printed(
    output: WorkerOutput, tmp_path: Path, capfdbinary: Any
) -> None:
    data = b"x" * 99 + b"\n"
    # Blocks for ever unless somebody reads: a pipe holds 64 KiB.
    write(tmp_path, PIPES[0], data * 4000)
    output.close()
    assert capfdbinary.readouterr().out == data * 4000


def test_a_runner_that_takes_over_reads_what_was_printed_meanwhile(
    tmp_path: Path, capfdbinary: Any
) -> None:
    first = WorkerOutput(tmp_path)
    first.start()
    worker = open_pipe(str(tmp_path), PIPES[0])
    assert worker is not None
    first.close()
    os.write(worker, b"meanwhile\n")
    second = WorkerOutput(tmp_path)
    second.start()
    second.close()
    os.close(worker)
    assert capfdbinary.readouterr().out == b"meanwhile\n"


def test_output_that_never_was_started_ends_at_once(tmp_path: Path) -> None:
    WorkerOutput(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_there_is_no_pipe_after_the_attempt(tmp_path: Path) -> None:
    assert open_pipe(str(tmp_path / "gone"), PIPES[0]) is None
    assert open_pipe("", PIPES[0]) is None


def test_a_process_that_user_code_has_forked_does_not_delay_the_end(
    output: WorkerOutput,
) -> None:
    """It inherits every descriptor of the runner, also those that an exec would close."""
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        output.close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
