"""Logs, threads, metrics and environment of a process in the form of Flink's REST API."""

import platform
import sys
from collections.abc import Mapping

from stoker.api.cluster import (
    ConfigurationEntry,
    LogFileAnswer,
    LogList,
    PythonEnvironment,
    PythonRuntime,
    ThreadDump,
    ThreadInfo,
)
from stoker.api.metrics import GarbageCollector, TaskManagerMetrics
from stoker.gateways.inspection import LogListing


def configuration_entries(configuration: Mapping[str, str]) -> list[ConfigurationEntry]:
    return [ConfigurationEntry(key=key, value=value) for key, value in configuration.items()]


def environment() -> PythonEnvironment:
    """Environment of this process. Program arguments are left out: they may be secret."""
    version = f"Python {platform.python_version()} ({platform.python_implementation()})"
    flags = [f"-X {name}" for name in sys._xoptions]
    return PythonEnvironment(
        jvm=PythonRuntime(version=version, arch=platform.machine(), options=flags),
        classpath=[path for path in sys.path if path],
    )


def log_list(listing: LogListing) -> LogList:
    return LogList(
        logs=[
            LogFileAnswer(name=file.name, size=file.size, mtime=file.modified)
            for file in listing.files
        ]
    )


def thread_dump(threads: Mapping[str, str]) -> ThreadDump:
    return ThreadDump(
        thread_infos=[
            ThreadInfo(thread_name=name, stringified_thread_info=stack)
            for name, stack in threads.items()
        ]
    )


def metrics_as_text(figures: Mapping[str, float]) -> dict[str, str]:
    return {
        name: str(int(value)) if float(value).is_integer() else str(value)
        for name, value in figures.items()
    }


def task_manager_metrics(figures: Mapping[str, float]) -> TaskManagerMetrics:
    """Metrics of a task executor; its memory includes that of its Spark server and runners."""
    own = int(figures.get("Status.JVM.Memory.Heap.Used", 0))
    children = int(figures.get("Status.Process.Children.Memory.Used", 0))
    collections = int(figures.get("Status.JVM.GarbageCollector.All.Count", 0))
    return TaskManagerMetrics(
        heap_used=own + children,
        heap_committed=own + children,
        heap_max=int(figures.get("Status.JVM.Memory.Heap.Max", 0)),
        garbage_collectors=[GarbageCollector(name="Python", count=collections, time=0)],
    )
