"""Limits on what a task's processes may take: memory, processes, open files, time.

The kernel enforces limits on each process, so that Python can report MemoryError. On the connect
engine the task executor also measures all processes of a task together, and kills the task when
their sum exceeds a limit. `python_workers` limits the workers that Spark starts for a task.
"""

import asyncio
import errno
import resource
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stoker.core.results import Failure
from stoker.core.values import Value
from stoker.engine.options import EngineOptions
from stoker.osproc.process_tree import content_of, descendants_of, own_bytes

_MEMORY_INFO = Path("/proc/meminfo")
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
MEGABYTE = 1024**2

KernelLimits = dict[int, tuple[int, int]]
"""Soft and hard limit by kind (`resource.RLIMIT_*`)."""


class RunnerLimits(Value):
    memory: int
    """Bytes that all processes of a task may take beyond the memory of a warm runner."""
    processes: int
    open_files: int | None = None
    worker_memory: int | None = None
    """Bytes that Spark's Python workers may take for the task; None: as many as `memory`."""
    result_rows: int | None = None
    """Rows that are kept of each query of a script."""
    result_bytes: int | None = None
    """Bytes of rows, as JSON, that are kept of all queries of a script together."""

    @property
    def memory_of_workers(self) -> int:
        return self.memory if self.worker_memory is None else self.worker_memory


@dataclass(frozen=True, kw_only=True)
class Usage:
    memory: int
    processes: int


def limits_of(options: EngineOptions, machine_memory: int, asked_memory: int = 0) -> RunnerLimits:
    """A job gets the memory that it asked for, unless the cluster allows less.

    Without either, a task gets half of the machine, so that other tasks survive.
    """
    allowed = options.runner_memory
    memory = asked_memory or allowed or machine_memory // 2
    return RunnerLimits(
        memory=int(memory if allowed is None else min(memory, allowed)),
        processes=options.runner_processes,
        open_files=options.runner_open_files,
        result_rows=options.result_rows,
        result_bytes=int(options.result_size),
    )


def machine_memory(memory_info: Path = _MEMORY_INFO, group_limit: Path = _GROUP_LIMIT) -> int:
    """Bytes of the machine, or of the container if that has less."""
    total = next(
        int(line.split()[1]) * 1024
        for line in memory_info.read_text().splitlines()
        if line.startswith("MemTotal:")
    )
    try:
        allowed = group_limit.read_text().strip()
    except OSError:
        return total
    return min(total, int(allowed)) if allowed.isdigit() else total


@dataclass(frozen=True, kw_only=True)
class MachineMemory:
    total: int
    available: int


def memory_of_machine(memory_info: Path = _MEMORY_INFO) -> MachineMemory:
    """Bytes of the whole machine, and of these the bytes that processes can still get."""
    found = {"MemTotal:": 0, "MemAvailable:": 0}
    for line in memory_info.read_text().splitlines():
        name, figure, *_ = line.split()
        if name in found:
            found[name] = int(figure) * 1024
    return MachineMemory(total=found["MemTotal:"], available=found["MemAvailable:"])


def exceeded_limit(usage: Usage, limits: RunnerLimits) -> Failure | None:
    if usage.memory > limits.memory:
        return out_of_memory(limits.memory, f"{usage.memory // MEGABYTE} MB in use")
    if usage.processes > limits.processes:
        return Failure(
            error="TooManyProcesses",
            message=f"the task had {usage.processes} processes, but {limits.processes} are allowed;"
            " it was killed with all of them; start fewer, or raise runner.processes",
        )
    return None


def out_of_memory(limit: int, detail: str) -> Failure:
    return Failure(
        error="OutOfMemory",
        message=f"the task's own processes ran out of memory: they may take {limit // MEGABYTE} MB"
        f" ({detail}); let Spark do the work instead of collecting its rows, or raise"
        " runner.memory",
    )


def too_many_files(limit: int | None, detail: str) -> Failure:
    allowed = "as many as its task executor" if limit is None else str(limit)
    return Failure(
        error="TooManyOpenFiles",
        message=f"a process of the task had too many files open: it may have {allowed} ({detail});"
        " close files after use, or set a higher runner.open-files",
    )


def name_limit(failure: Failure, error: BaseException, limits: RunnerLimits | None) -> Failure:
    """The failure, reworded to name the limit if the error is due to one."""
    if limits is None:
        return failure
    if isinstance(error, MemoryError):
        limit = out_of_memory(limits.memory, failure.message)
    elif isinstance(error, OSError) and error.errno == errno.EMFILE:
        limit = too_many_files(limits.open_files, failure.message)
    else:
        return failure
    return msgspec.structs.replace(failure, error=limit.error, message=limit.message)


def too_slow(seconds: float) -> Failure:
    return Failure(
        error="RunTimeExceeded",
        message=f"the task ran for longer than the {seconds:g} s that it may (runner.run-time), and"
        " was ended; make it faster, or raise the limit",
    )


def apply_limits(limits: RunnerLimits) -> KernelLimits:
    """Have the kernel refuse this process more memory or files; return the previous limits.

    Each child process inherits them for itself alone; the task executor checks the sum.
    """
    before = {
        which: resource.getrlimit(which) for which in (resource.RLIMIT_DATA, resource.RLIMIT_NOFILE)
    }
    _set_soft_limit(resource.RLIMIT_DATA, _data_bytes() + limits.memory)
    if limits.open_files is not None:
        _set_soft_limit(resource.RLIMIT_NOFILE, limits.open_files)
    return before


def _set_soft_limit(which: int, wanted: int) -> None:
    """Set the limit, or the hard limit if that is lower: the kernel refuses more."""
    _, most = resource.getrlimit(which)
    allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(which, (allowed, most))


def restore_limits(before: KernelLimits) -> None:
    """Undo `apply_limits` after a task, for the next one."""
    for which, limits in before.items():
        resource.setrlimit(which, limits)


def release_memory_limit() -> None:
    """Lift the limit on memory again, because reporting the failure needs some."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _data_bytes() -> int:
    for line in content_of("/proc/self/status").splitlines():
        if line.startswith(b"VmData:"):
            return int(line.split()[1]) * 1024
    return 0


_MEASURE_SECONDS = 0.5


async def wait_until_limit_exceeded(pid: int, limits: RunnerLimits) -> Failure:
    """Return when the processes of a task exceed their limits; runs in the task executor."""
    # Memory that the runner shares with the zygote is not the task's.
    before = own_bytes(pid)
    while True:
        await asyncio.sleep(_MEASURE_SECONDS)
        processes = [pid, *descendants_of(pid)]
        memory = sum(map(own_bytes, processes)) - before
        if memory > limits.memory:
            # That sum counts shared pages more than once. The exact figure takes long to read.
            memory = await asyncio.to_thread(sum, map(proportional_bytes, processes))
        exceeded = exceeded_limit(Usage(memory=memory, processes=len(processes)), limits)
        if exceeded is not None:
            return exceeded


def proportional_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
