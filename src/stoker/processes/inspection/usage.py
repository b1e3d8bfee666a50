"""What this process uses, as counted by the Linux kernel, and what its threads do at the moment.

A figure that /proc does not have is 0.
"""

import gc
import os
import resource
import sys
import threading
import time
import traceback
from pathlib import Path

from stoker.metrics.process import age_seconds, open_files
from stoker.osproc.process_tree import descendants_of, resident_bytes

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


def process_figures() -> dict[str, float]:
    """Figures under Flink's names for a JVM; those under `Status.Process` are Stoker's own.

    All memory of a Python process counts as its heap. The child processes of a task executor are
    its Spark server, its zygote and its runners.
    """
    memory = resident_bytes(os.getpid())
    children = sum(map(resident_bytes, descendants_of(os.getpid())))
    collections = sum(each["collections"] for each in gc.get_stats())
    cpu = time.process_time_ns()
    return {
        "Status.JVM.CPU.Load": _load(cpu),
        "Status.JVM.CPU.Time": cpu,
        "Status.JVM.Memory.Heap.Used": memory,
        "Status.JVM.Memory.Heap.Committed": memory,
        "Status.JVM.Memory.Heap.Max": memory_bytes(),
        "Status.JVM.Threads.Count": threading.active_count(),
        "Status.JVM.GarbageCollector.All.Count": collections,
        "Status.JVM.ClassLoader.ClassesLoaded": len(sys.modules),
        "Status.JVM.FileDescriptor.Open": open_files(),
        "Status.JVM.FileDescriptor.Max": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "Status.Process.Children.Memory.Used": children,
        "Status.Process.Memory.Peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "Status.Process.Uptime": age_seconds(),
    }


def cores() -> int:
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Memory of this machine."""
    return _PAGE * os.sysconf("SC_PHYS_PAGES")


def free_memory() -> int:
    """Bytes of memory that programs on this machine could still get."""
    try:
        lines = (_PROC / "meminfo").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _load(cpu_nanoseconds: int) -> float:
    """Share of one processor used since the process started."""
    age = age_seconds()
    return round(cpu_nanoseconds / 1e9 / age, 4) if age else 0.0


def thread_stacks() -> dict[str, str]:
    """Stacks by thread name; the innermost call comes last, as in a traceback."""
    threads = {thread.ident: thread for thread in threading.enumerate()}
    stacks: dict[str, str] = {}
    for ident, frame in sys._current_frames().items():
        thread = threads.get(ident)
        name = thread.name if thread else f"thread-{ident}"
        if name in stacks:
            name = f"{name}-{ident}"
        kind = " daemon" if thread is not None and thread.daemon else ""
        # Lines of code only: values of variables may be secrets.
        trace = "".join(traceback.format_stack(frame))
        stacks[name] = f'"{name}"{kind} Id={ident}\n{trace}'
    return stacks
