"""What a task executor shows of its slots, tasks, engine and child processes as metrics."""

from collections import Counter as Tally
from collections.abc import Mapping

from stoker.core.states import ExecutionState
from stoker.engine.contract import Engine, EngineState
from stoker.metrics.catalogue import (
    CHILD_MEMORY,
    CHILDREN,
    ENGINE_STATE,
    JVM_CPU,
    JVM_GC,
    JVM_HEAP,
    SLOTS,
    TASKS,
    WARM_PROCESSES,
)
from stoker.metrics.registry import MetricGroup
from stoker.taskexecutor.child_processes import ChildProcesses
from stoker.taskexecutor.holdings import JobHoldings

_BUSY = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING)

Readings = Mapping[tuple[str, ...], float]


def measure_holdings(metrics: MetricGroup, holdings: JobHoldings) -> None:
    def slots() -> Readings:
        statuses = holdings.slots.report().slots
        used = sum(status.job_id is not None for status in statuses)
        return {("used",): used, ("free",): len(statuses) - used}

    def tasks() -> Readings:
        counts = Tally(task.state for task in holdings.all_tasks() if task.outcome is None)
        return {(state.value,): counts[state] for state in _BUSY}

    metrics.gauges(SLOTS, slots)
    metrics.gauges(TASKS, tasks)


def measure_engine(metrics: MetricGroup, engine: Engine, children: ChildProcesses) -> None:
    metrics.gauges(
        ENGINE_STATE,
        lambda: {(state.value,): float(engine.state is state) for state in EngineState},
    )
    metrics.gauges(
        WARM_PROCESSES,
        lambda: {
            ("runner",): engine.figures.warm_runners,
            ("driver",): engine.figures.warm_drivers,
        },
    )
    metrics.gauges(CHILDREN, lambda: _by_label(children.count))
    metrics.gauges(CHILD_MEMORY, lambda: _by_label(children.resident))
    metrics.gauges(JVM_HEAP, lambda: _by_label(engine.figures.server.heap_bytes))
    metrics.gauges(JVM_GC, lambda: _by_label(engine.figures.server.gc_seconds))
    metrics.gauge(JVM_CPU, lambda: engine.figures.server.cpu_seconds)


def _by_label(values: Mapping[str, float]) -> Readings:
    return {(label,): value for label, value in values.items()}
