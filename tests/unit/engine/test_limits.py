"""How many resources the processes of a task may use."""

import errno
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.options import ByteSize
from stoker.core.results import Failure
from stoker.engine.limits import (
    RunnerLimits,
    Usage,
    apply_limits,
    exceeded_limit,
    limits_of,
    machine_memory,
    name_limit,
)
from stoker.engine.options import EngineOptions

sizes = st.integers(min_value=1, max_value=2**45)


@given(asked=st.just(0) | sizes, allowed=st.none() | sizes.map(ByteSize), machine=sizes)
def test_a_task_never_gets_more_than_the_cluster_allows(
    asked: int, allowed: ByteSize | None, machine: int
) -> None:
    limits = limits_of(EngineOptions(runner_memory=allowed), machine, asked)
    if allowed is not None:
        assert limits.memory <= allowed
    if asked and (allowed is None or asked <= allowed):
        assert limits.memory == asked
    if not asked and allowed is None:
        assert limits.memory == machine // 2, "half is left for other tasks"


@given(memory=sizes, processes=st.integers(1, 5000))
def test_only_usage_above_a_limit_exceeds_it_and_the_failure_names_it(
    memory: int, processes: int
) -> None:
    limits = limits_of(EngineOptions(runner_memory=ByteSize(2**30), runner_processes=100), 2**40)
    broken = exceeded_limit(Usage(memory=memory, processes=processes), limits)
    if memory > 2**30:
        assert broken is not None
        assert broken.error == "OutOfMemory"
        assert "runner.memory" in broken.message
    elif processes > 100:
        assert broken is not None
        assert broken.error == "TooManyProcesses"
        assert "runner.processes" in broken.message
    else:
        assert broken is None


def test_the_memory_limit_of_the_container_replaces_that_of_the_machine(tmp_path: Path) -> None:
    info, group = tmp_path / "meminfo", tmp_path / "memory.max"
    info.write_text("MemFree: 3 kB\nMemTotal:       1000 kB\n")
    assert machine_memory(info, group) == 1000 * 1024
    group.write_text("max\n")
    assert machine_memory(info, group) == 1000 * 1024
    group.write_text("4096\n")
    assert machine_memory(info, group) == 4096


def test_a_failure_caused_by_a_limit_says_how_to_raise_it() -> None:
    limits = limits_of(EngineOptions(runner_memory=ByteSize(2**30), runner_open_files=64), 2**40)
    failure = Failure(error="OSError", message="as Python tells it", stack_trace="where")
    of_files = name_limit(failure, OSError(errno.EMFILE, "Too many open files"), limits)
    assert of_files.error == "TooManyOpenFiles"
    assert "may have 64 (as Python tells it)" in of_files.message
    assert "runner.open-files" in of_files.message
    assert of_files.stack_trace == "where"
    of_memory = name_limit(failure, MemoryError(), limits)
    assert of_memory.error == "OutOfMemory"
    assert "runner.memory" in of_memory.message
    assert name_limit(failure, OSError(errno.ENOENT, "not there"), limits) is failure
    assert name_limit(failure, MemoryError(), None) is failure


@pytest.mark.parametrize("most", [resource.RLIM_INFINITY, 64])
def test_a_hard_limit_below_the_limit_of_the_task_is_kept(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The kernel refuses a soft limit above the hard limit."""
    limits = dict.fromkeys((resource.RLIMIT_DATA, resource.RLIMIT_NOFILE), (most, most))
    before = dict(limits)
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    assert apply_limits(RunnerLimits(memory=2**30, processes=1, open_files=100)) == before
    soft = [limits[which][0] for which in (resource.RLIMIT_DATA, resource.RLIMIT_NOFILE)]
    if most == 64:
        assert soft == [64, 64]
    else:
        assert soft[0] > 2**30
        assert soft[1] == 100
    assert {hard for _, hard in limits.values()} == {most}
