"""Whose a process is, by its mark."""

import os

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.process_tree import (
    children_of,
    descendants_of,
    environment_value,
    own_bytes,
    resident_bytes,
    start_time,
)
from stoker.engine.python_workers import id_in
from stoker.engine.strays import is_orphaned, owner_mark


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
    assert environment_value(pid, "no such variable") is None


def test_of_a_process_that_is_gone_there_is_nothing_to_tell() -> None:
    nobody = 2**22 + 1
    assert start_time(nobody) is None
    assert (own_bytes(nobody), resident_bytes(nobody)) == (0, 0)
    assert (children_of(nobody), descendants_of(nobody)) == ([], [])
    assert environment_value(nobody, "PATH") is None


def test_the_mark_of_workers_is_found_in_what_spark_says() -> None:
    name = "273790b4-dc30-49b1-b6df-a7752e02be44"
    said = f"Some(JobArtifactState({name},Some(spark://h:1/artifacts/{name}/classes/)))"
    assert id_in(said) == name
    assert id_in("None") == ""
