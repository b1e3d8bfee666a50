"""Processes that end while they are being read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.osproc import process_tree
from stoker.osproc.process_tree import children_of, program_of


def test_a_thread_that_ends_during_the_read_does_not_hide_children_of_other_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = os.listdir("/proc/self/task")
    listed = {f"/proc/{os.getpid()}/task": ["0", *threads, "0"]}
    monkeypatch.setattr(process_tree.os, "listdir", listed.__getitem__)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        try:
            assert child.pid in children_of(os.getpid())
            assert program_of(child.pid) == Path(sys.executable).resolve().name
        finally:
            child.kill()


def test_a_zombie_is_a_child_without_a_program() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert child.pid in children_of(os.getpid())
        assert program_of(child.pid) == ""
    finally:
        child.wait()


def test_a_process_that_is_gone_has_no_children() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert children_of(child.pid) == []
