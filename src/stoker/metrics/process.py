"""What a process uses, as the kernel counts it, under the names of all Prometheus clients."""

import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Mapping

from stoker.metrics.catalogue import (
    BUILD,
    CPU,
    GC_RUNS,
    MACHINE_MEMORY,
    MAX_FILES,
    MODULES,
    OPEN_FILES,
    PEAK,
    RESIDENT,
    STARTED,
    THREADS,
)
from stoker.metrics.registry import MetricGroup
from stoker.osproc.process_tree import resident_bytes, start_time

_TICKS = os.sysconf("SC_CLK_TCK")


def measure_process(
    metrics: MetricGroup, *, version: str, component: str, resource_id: str
) -> None:
    """Add the figures of this process to its group."""
    started = time.time() - age_seconds()
    metrics.gauges(BUILD, lambda: {(version, component, resource_id): 1.0})
    metrics.gauge(CPU, time.process_time)
    metrics.gauge(RESIDENT, lambda: resident_bytes(os.getpid()))
    metrics.gauge(STARTED, lambda: started)
    metrics.gauge(OPEN_FILES, open_files)
    metrics.gauge(MAX_FILES, lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    metrics.gauge(THREADS, threading.active_count)
    metrics.gauges(GC_RUNS, _collections)
    metrics.gauge(PEAK, lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    metrics.gauge(MODULES, lambda: len(sys.modules))
    metrics.gauges(MACHINE_MEMORY, _machine_memory)


def _collections() -> Mapping[tuple[str, ...], float]:
    return {(str(number),): each["collections"] for number, each in enumerate(gc.get_stats())}


def _machine_memory() -> Mapping[tuple[str, ...], float]:
    return {("total",): machine_memory(), ("available",): available_memory()}


def machine_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_memory() -> int:
    """Bytes that programs on this machine could still get; 0 where the kernel does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def open_files() -> int:
    """0 where the kernel does not tell."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def age_seconds() -> float:
    """How long this process has been running."""
    started = start_time(os.getpid())
    try:
        with open("/proc/uptime", encoding="ascii") as file:
            uptime = float(file.read().split()[0])
    except (OSError, IndexError, ValueError):
        return 0.0
    return 0.0 if started is None else max(0.0, uptime - started / _TICKS)
