"""How much a task's processes may take. Decides purely; who measures and kills is the watch."""

import errno
import resource
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stoker.core.results import Failure
from stoker.core.values import Value
from stoker.engine.options import EngineOptions
from stoker.osproc.process_tree import content_of

_MEMORY_INFO = Path("/proc/meminfo")
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_MEGABYTE = 1024**2

KernelLimits = dict[int, tuple[int, int]]
"""By kind: what holds, and how far a process may raise that itself."""


class RunnerLimits(Value):
    memory: int
    """Bytes that user code may add to what a warm runner has, all its processes together."""
    processes: int
    open_files: int | None = None


@dataclass(frozen=True, kw_only=True)
class Usage:
    memory: int
    processes: int


def limits_of(options: EngineOptions, machine_memory: int, asked_memory: int = 0) -> RunnerLimits:
    """What a job asked for is what it may take, unless the cluster allows less.

    Without either, a task may take half of the machine, so that its neighbours live on.
    """
    allowed = options.runner_memory
    memory = asked_memory or allowed or machine_memory // 2
    return RunnerLimits(
        memory=int(memory if allowed is None else min(memory, allowed)),
        processes=options.runner_processes,
        open_files=options.runner_open_files,
    )


def machine_memory(memory_info: Path = _MEMORY_INFO, group_limit: Path = _GROUP_LIMIT) -> int:
    """Of the machine, or of the container if that is less."""
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


def broken_limit(usage: Usage, limits: RunnerLimits) -> Failure | None:
    if usage.memory > limits.memory:
        return out_of_memory(limits.memory, f"{usage.memory // _MEGABYTE} MB in use")
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
        message=f"the task's own processes ran out of memory: they may take {limit // _MEGABYTE} MB"
        f" ({detail}); let Spark do the work instead of collecting its rows, or raise"
        " runner.memory",
    )


def too_many_files(limit: int | None, detail: str) -> Failure:
    allowed = "as many as its task executor" if limit is None else str(limit)
    return Failure(
        error="TooManyOpenFiles",
        message=f"a process of the task had too many files open: it may have {allowed} ({detail});"
        " close those that are done with, or set runner.open-files",
    )


def naming_its_limit(
    failure: Failure, error: BaseException, limits: RunnerLimits | None
) -> Failure:
    """What the task ran into, if that is one of its limits, and how to raise it."""
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


def take_on(limits: RunnerLimits) -> KernelLimits:
    """In a runner: the kernel refuses its process more memory, which Python tells as an error.

    Others of its processes each have that much; the watch adds them up. Gives what held before.
    """
    before = {
        which: resource.getrlimit(which) for which in (resource.RLIMIT_DATA, resource.RLIMIT_NOFILE)
    }
    _, most = before[resource.RLIMIT_DATA]
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + limits.memory, most))
    if limits.open_files is not None:
        _, most = before[resource.RLIMIT_NOFILE]
        unlimited = most == resource.RLIM_INFINITY
        allowed = limits.open_files if unlimited else min(limits.open_files, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    return before


def take_off(before: KernelLimits) -> None:
    """When the task is over, and another one may follow."""
    for which, limits in before.items():
        resource.setrlimit(which, limits)


def let_go() -> None:
    """So that there is memory to say what happened."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _data_bytes() -> int:
    for line in content_of("/proc/self/status").splitlines():
        if line.startswith(b"VmData:"):
            return int(line.split()[1]) * 1024
    return 0
