"""The supervisor kills all processes of a program that ended, and exits like the program."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders import wait_until

DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.01)
"""
STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write("ready")
while True:
    pass
"""
PARENT = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-m", "stoker.osproc.supervisor", str(os.getpid()), "60", "--",
                  sys.executable, "-c", sys.argv[1], sys.argv[2]])
time.sleep(1000)
"""
LIMIT_SECONDS = 60.0


@contextmanager
def supervisor_of(
    source: str, *arguments: str, grace: float = 60.0
) -> Iterator["subprocess.Popen[bytes]"]:
    """The supervisor of a program; at the end it is killed if it still runs, with the program."""
    own = [sys.executable, "-m", "stoker.osproc.supervisor", str(os.getpid()), str(grace), "--"]
    process = subprocess.Popen([*own, sys.executable, "-c", source, *arguments])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_content(path: Path) -> str:
    wait_until(lambda: path.exists() and path.read_text() != "", f"{path.name} is written")
    return path.read_text()


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os._exit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
        ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 1)", -signal.SIGRTMIN - 1),
    ],
)
def test_the_supervisor_exits_like_its_program(source: str, code: int) -> None:
    with supervisor_of(source) as process:
        assert process.wait(LIMIT_SECONDS) == code


def test_a_daemon_that_left_its_session_and_ignores_signals_is_killed(tmp_path: Path) -> None:
    with supervisor_of(DAEMON, str(tmp_path / "pid")) as process:
        assert process.wait(LIMIT_SECONDS) == 0
    assert not Path(f"/proc/{int((tmp_path / 'pid').read_text())}").exists()


def test_a_program_that_ignores_the_signal_is_killed_when_its_grace_is_over(tmp_path: Path) -> None:
    with supervisor_of(STUBBORN, str(tmp_path / "ready"), grace=0.5) as process:
        wait_for_content(tmp_path / "ready")
        process.terminate()
        assert process.wait(LIMIT_SECONDS) == -signal.SIGKILL


def test_a_program_can_be_killed_at_once(tmp_path: Path) -> None:
    with supervisor_of(STUBBORN, str(tmp_path / "ready"), grace=1000) as process:
        wait_for_content(tmp_path / "ready")
        process.send_signal(signal.SIGUSR1)
        assert process.wait(LIMIT_SECONDS) == -signal.SIGKILL


def test_the_program_is_killed_when_the_task_executor_is_killed(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    source = STUBBORN.replace('"ready"', "str(__import__('os').getpid())")
    parent = subprocess.Popen([sys.executable, "-c", PARENT, source, str(marker)])
    try:
        pid = int(wait_for_content(marker))
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the program has ended")
