"""How much a task's processes may take."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.options import ByteSize
from stoker.engine.limits import Usage, broken_limit, limits_of, machine_memory
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
        assert limits.memory == machine // 2, "so that its neighbours live on"


@given(memory=sizes, processes=st.integers(1, 5000))
def test_only_what_is_over_a_limit_breaks_it_and_is_named(memory: int, processes: int) -> None:
    limits = limits_of(EngineOptions(runner_memory=ByteSize(2**30), runner_processes=100), 2**40)
    broken = broken_limit(Usage(memory=memory, processes=processes), limits)
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


def test_a_container_counts_as_the_machine_when_it_allows_less(tmp_path: Path) -> None:
    info, group = tmp_path / "meminfo", tmp_path / "memory.max"
    info.write_text("MemFree: 3 kB\nMemTotal:       1000 kB\n")
    assert machine_memory(info, group) == 1000 * 1024
    group.write_text("max\n")
    assert machine_memory(info, group) == 1000 * 1024
    group.write_text("4096\n")
    assert machine_memory(info, group) == 4096
