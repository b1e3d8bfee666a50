"""Whose a process is, by its mark."""

import os
import signal
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.runner.python_workers import id_in
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


def test_what_belongs_to_a_living_process_is_no_orphan() -> None:
    assert not is_orphaned(owner_mark())


def test_an_id_that_was_given_again_is_another_process() -> None:
    namespace, pid, began = owner_mark().split("/")
    assert is_orphaned(f"{namespace}/{pid}/{int(began) - 1}")


def test_where_ids_count_otherwise_nobody_is_an_orphan() -> None:
    assert not is_orphaned("pid:[1]/1/0")


@given(st.text())
def test_a_mark_that_is_not_ours_never_makes_an_orphan(mark: str) -> None:
    assert not is_orphaned(mark)


def test_the_kernel_tells_of_this_process() -> None:
    pid = os.getpid()
    assert start_time(pid) is not None
    assert 0 < own_bytes(pid) <= resident_bytes(pid)
    assert value_in(environment_of(pid), "no such variable") is None


def test_one_that_has_only_just_begun_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment it has no environment: about every seventh is met in it."""
    for number in range(60):
        mark = f"{os.getpid()}-{number}"
        with subprocess.Popen(["/bin/sleep", "600"], env={OWNER: mark}) as begun:
            monkeypatch.setattr("stoker.osproc.orphans.all_processes", [begun.pid].__iter__)
            try:
                assert kill_marked(OWNER, mark) == 1
            finally:
                begun.kill()


def test_what_one_starts_before_it_is_killed_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"{os.getpid()}-parent"
    started: list[subprocess.Popen[bytes]] = []
    kill_really = os.kill

    def kill(pid: int, number: int) -> None:
        """The first that is killed starts another one, and is gone at once."""
        if len(started) == 1:
            started.append(_begin(mark))
        kill_really(pid, number)
        next(each for each in started if each.pid == pid).wait()

    monkeypatch.setattr(os, "kill", kill)
    started.append(_begin(mark))
    assert kill_marked(OWNER, mark) == 2
    assert [process.poll() for process in started] == [-signal.SIGKILL] * 2


def _begin(mark: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["/bin/sleep", "600"], env={OWNER: mark})
    while not environment_of(process.pid):
        os.sched_yield()
    return process


def test_of_a_process_that_is_gone_there_is_nothing_to_tell() -> None:
    nobody = 2**22 + 1
    assert start_time(nobody) is None
    assert (own_bytes(nobody), resident_bytes(nobody)) == (0, 0)
    assert (children_of(nobody), descendants_of(nobody)) == ([], [])
    assert environment_of(nobody) == b""
    assert not is_about_to_begin(nobody)


def test_the_mark_of_workers_is_found_in_what_spark_says() -> None:
    name = "273790b4-dc30-49b1-b6df-a7752e02be44"
    said = f"Some(JobArtifactState({name},Some(spark://h:1/artifacts/{name}/classes/)))"
    assert id_in(said) == name
    assert id_in("None") == ""
