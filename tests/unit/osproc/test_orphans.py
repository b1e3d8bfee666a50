"""Orphan processes are found by the mark in their environment."""

import os
import signal
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.osproc.orphans import OWNER, is_orphaned, kill_marked, owner_mark
from stoker.osproc.process_tree import (
    children_of,
    descendants_of,
    environment_of,
    is_about_to_begin,
    own_bytes,
    resident_bytes,
    start_time,
    value_in,
)


def test_a_process_of_a_live_owner_is_no_orphan() -> None:
    assert not is_orphaned(owner_mark())


def test_an_owner_whose_process_id_was_reused_is_gone() -> None:
    namespace, pid, began = owner_mark().split("/")
    assert is_orphaned(f"{namespace}/{pid}/{int(began) - 1}")


def test_a_mark_without_a_process_id_makes_no_orphan() -> None:
    namespace, _, began = owner_mark().split("/")
    assert not any(is_orphaned(f"{namespace}/{pid}/{began}") for pid in ("", "x", "-1", "²"))


def test_owners_in_another_process_id_namespace_count_as_alive() -> None:
    assert not is_orphaned("pid:[1]/1/0")


@given(st.text())
def test_a_malformed_mark_never_makes_an_orphan(mark: str) -> None:
    assert not is_orphaned(mark)


def test_facts_about_this_process_are_found() -> None:
    pid = os.getpid()
    assert start_time(pid) is not None
    assert 0 < own_bytes(pid) <= resident_bytes(pid)
    assert value_in(environment_of(pid), "no such variable") is None


def test_a_process_that_has_just_started_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new process has no environment for a moment; about one in seven is seen in that state."""
    for number in range(60):
        mark = f"{os.getpid()}-{number}"
        with subprocess.Popen(["/bin/sleep", "600"], env={OWNER: mark}) as begun:
            monkeypatch.setattr("stoker.osproc.orphans.all_processes", [begun.pid].__iter__)
            try:
                assert kill_marked(OWNER, mark) == 1
            finally:
                begun.kill()


def test_a_process_started_just_before_the_kill_is_found_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = f"{os.getpid()}-parent"
    started: list[subprocess.Popen[bytes]] = []
    kill_really = os.kill

    def kill(pid: int, number: int) -> None:
        """Kill a process; the first one starts another process just before it dies."""
        if len(started) == 1:
            started.append(_begin(mark))
        kill_really(pid, number)
        next(each for each in started if each.pid == pid).wait()

    monkeypatch.setattr(os, "kill", kill)
    started.append(_begin(mark))
    assert kill_marked(OWNER, mark) == 2
    assert [process.poll() for process in started] == [-signal.SIGKILL] * 2
    for process in started:
        process.communicate()


def _begin(mark: str) -> subprocess.Popen[bytes]:
    """Start a process; it has its environment, because its program has answered."""
    process = subprocess.Popen(
        ["/bin/cat"], env={OWNER: mark}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    process.stdout.readline()
    return process


def test_a_process_that_is_gone_has_no_facts() -> None:
    unused_pid = 2**22 + 1
    assert start_time(unused_pid) is None
    assert (own_bytes(unused_pid), resident_bytes(unused_pid)) == (0, 0)
    assert (children_of(unused_pid), descendants_of(unused_pid)) == ([], [])
    assert environment_of(unused_pid) == b""
    assert not is_about_to_begin(unused_pid)
