"""Metrics of a process under the names that Flink gives them.

All memory of a Python process counts as its heap. What Flink does not have keeps Stoker's name,
followed by the values of its labels, as in `stoker_jobs.RUNNING`.
"""

from collections.abc import Iterable, Mapping

from stoker.metrics.catalogue import (
    CATALOGUE,
    CHILD_MEMORY,
    CLUSTER_SLOTS,
    CPU,
    EXECUTORS,
    GC_RUNS,
    JOBS,
    JVM_GC,
    MACHINE_MEMORY,
    MAX_FILES,
    MODULES,
    OPEN_FILES,
    PEAK,
    RESIDENT,
    STARTED,
    THREADS,
)
from stoker.metrics.definitions import MetricDefinition, MetricKind
from stoker.metrics.registry import MetricFamily, MetricSample

Figures = dict[str, float]

_SUMS: Mapping[MetricDefinition, tuple[str, ...]] = {
    RESIDENT: ("Status.JVM.Memory.Heap.Used", "Status.JVM.Memory.Heap.Committed"),
    THREADS: ("Status.JVM.Threads.Count",),
    GC_RUNS: ("Status.JVM.GarbageCollector.All.Count",),
    MODULES: ("Status.JVM.ClassLoader.ClassesLoaded",),
    OPEN_FILES: ("Status.JVM.FileDescriptor.Open",),
    MAX_FILES: ("Status.JVM.FileDescriptor.Max",),
    CHILD_MEMORY: ("Status.Process.Children.Memory.Used",),
    PEAK: ("Status.Process.Memory.Peak",),
    JOBS: ("numRunningJobs",),
    CLUSTER_SLOTS: ("taskSlotsTotal",),
}
"""Flink's names for the sum over all series of a metric."""
_SERIES: Mapping[tuple[MetricDefinition, str], str] = {
    (MACHINE_MEMORY, "total"): "Status.JVM.Memory.Heap.Max",
    (MACHINE_MEMORY, "available"): "Status.Machine.Memory.Free",
    (EXECUTORS, "registered"): "numRegisteredTaskManagers",
    (CLUSTER_SLOTS, "free"): "taskSlotsAvailable",
}
"""Flink's names for one series of a metric."""


def process_figures(families: Iterable[MetricFamily], now: float) -> Figures:
    """Figures by name. `now`: seconds since 1970. Figures of single jobs are left out."""
    by_name = {family.name: family.samples for family in families}
    figures: Figures = {}
    for definition, names in _SUMS.items():
        if samples := by_name.get(definition.name):
            figures |= dict.fromkeys(names, sum(sample.value for sample in samples))
    for (definition, label), name in _SERIES.items():
        for sample in by_name.get(definition.name, ()):
            if sample.labels == (label,):
                figures[name] = sample.value
    figures |= _times(by_name, now)
    for name, samples in by_name.items():
        if (known := CATALOGUE.get(name)) is not None and "job_id" not in known.labels:
            figures |= _under_own_name(known, samples)
    return figures


def _times(by_name: Mapping[str, tuple[MetricSample, ...]], now: float) -> Figures:
    figures: Figures = {}
    for sample in by_name.get(JVM_GC.name, ()):
        collector = sample.labels[0].replace("-", "_")
        figures[f"Status.JVM.GarbageCollector.{collector}.Time"] = sample.value * 1000
    cpu, started = by_name.get(CPU.name), by_name.get(STARTED.name)
    if cpu and started:
        age = max(0.0, now - started[0].value)
        figures |= {
            "Status.JVM.CPU.Time": cpu[0].value * 1e9,
            "Status.JVM.CPU.Load": round(cpu[0].value / age, 4) if age else 0.0,
            "Status.Process.Uptime": age,
        }
    return figures


def _under_own_name(definition: MetricDefinition, samples: Iterable[MetricSample]) -> Figures:
    figures: Figures = {}
    for sample in samples:
        # A comma separates the names in a request.
        name = ".".join((definition.name, *sample.labels)).replace(",", "_")
        if definition.kind is MetricKind.HISTOGRAM:
            figures |= {f"{name}.count": sample.count, f"{name}.sum": sample.value}
        else:
            figures[name] = sample.value
    return figures
