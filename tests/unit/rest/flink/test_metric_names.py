"""Metrics under Flink's names."""

import pytest

from stoker.metrics.catalogue import (
    CHILD_MEMORY,
    CLUSTER_SLOTS,
    EXECUTORS,
    JOB_UPTIME,
    JOBS,
    JVM_GC,
    LOOP_LAG,
    REST_REQUESTS,
)
from stoker.metrics.process import measure_process
from stoker.metrics.registry import MetricRegistry
from stoker.rest.flink.metric_names import process_figures


def test_a_process_has_the_figures_of_flinks_jvm() -> None:
    registry = MetricRegistry()
    measure_process(registry.process, version="1", component="master", resource_id="m")
    families = registry.collect()
    started = next(each for each in families if each.name == "process_start_time_seconds")
    figures = process_figures(families, started.samples[0].value + 100)
    assert figures["Status.Process.Uptime"] == pytest.approx(100)
    assert figures["Status.JVM.CPU.Load"] == pytest.approx(
        figures["Status.JVM.CPU.Time"] / 100e9, abs=1e-4
    )
    assert figures["Status.JVM.Memory.Heap.Used"] == figures["process_resident_memory_bytes"]
    assert figures["Status.JVM.Memory.Heap.Max"] > figures["Status.JVM.Memory.Heap.Used"]
    assert figures["Status.Machine.Memory.Free"] > 0
    assert figures["Status.JVM.Threads.Count"] >= 1
    assert figures["Status.JVM.GarbageCollector.All.Count"] >= 1
    assert figures["Status.JVM.ClassLoader.ClassesLoaded"] > 10
    assert figures["Status.JVM.FileDescriptor.Open"] > 1


def test_the_cluster_spark_and_child_processes_have_flinks_names_too() -> None:
    registry = MetricRegistry()
    group = registry.process
    group.gauges(JOBS, lambda: {("RUNNING",): 3, ("FAILING",): 1})
    group.gauges(CLUSTER_SLOTS, lambda: {("free",): 5, ("used",): 2})
    group.gauges(EXECUTORS, lambda: {("registered",): 4, ("starting",): 9})
    group.gauges(CHILD_MEMORY, lambda: {("runners",): 10, ("drivers",): 20})
    group.gauges(JVM_GC, lambda: {("G1-Young-Generation",): 1.5})
    assert process_figures(registry.collect(), 0) | {
        "numRunningJobs": 4,
        "taskSlotsTotal": 7,
        "taskSlotsAvailable": 5,
        "numRegisteredTaskManagers": 4,
        "Status.Process.Children.Memory.Used": 30,
        "Status.JVM.GarbageCollector.G1_Young_Generation.Time": 1500,
    } == process_figures(registry.collect(), 0)


def test_other_metrics_keep_their_names_and_those_of_single_jobs_are_left_out() -> None:
    registry = MetricRegistry()
    group = registry.process
    group.counter(REST_REQUESTS).increment("GET", "/a,b", "200")
    group.histogram(LOOP_LAG).observe(0.5)
    group.gauges(JOB_UPTIME, lambda: {("1", "clicks"): 3})
    assert process_figures(registry.collect(), 0) == {
        "stoker_rest_requests_total.GET./a_b.200": 1,
        "stoker_event_loop_lag_seconds.count": 1,
        "stoker_event_loop_lag_seconds.sum": 0.5,
    }
