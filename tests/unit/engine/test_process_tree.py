"""What the kernel tells of processes, when some of it is gone already."""

import os
import subprocess
import sys

import pytest

from stoker.engine import process_tree
from stoker.engine.process_tree import children_of, living_children_of


def test_a_thread_that_ends_meanwhile_hides_no_child_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = os.listdir("/proc/self/task")
    listed = {f"/proc/{os.getpid()}/task": ["0", *threads, "0"]}
    monkeypatch.setattr(process_tree.os, "listdir", listed.__getitem__)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        try:
            assert child.pid in children_of(os.getpid())
            assert child.pid in living_children_of(os.getpid())
        finally:
            child.kill()


def test_one_that_has_ended_is_no_living_child() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert child.pid not in living_children_of(os.getpid())
        assert child.pid in children_of(os.getpid())
    finally:
        child.wait()


def test_a_process_that_is_gone_has_no_children() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert children_of(child.pid) == []
