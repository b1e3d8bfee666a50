"""A vertex and its subtasks: each region that contains the vertex runs it as one subtask."""

from collections.abc import Iterable, Sequence

import msgspec

from stoker.api.metrics import VertexAggregates, VertexMetrics
from stoker.api.vertices import (
    SubtaskAttempt,
    SubtaskTime,
    SubtaskTimes,
    VertexAnswer,
    VertexTaskManager,
    VertexTaskManagers,
)
from stoker.core.results import AttemptDetails, RegionDetails
from stoker.core.states import ExecutionState
from stoker.core.values import Millis
from stoker.rest.jobs.aggregation import summarize_by_name
from stoker.rest.jobs.lookup import FoundVertex
from stoker.rest.jobs.vertex_views import (
    REPORTED_MAX_PARALLELISM,
    combine_states,
    count_states,
    metrics_of,
    span_duration,
    span_of,
)

UNASSIGNED = "(unassigned)"
_NUMERIC_METRICS = (
    "read-bytes",
    "write-bytes",
    "read-records",
    "write-records",
    "accumulated-backpressured-time",
    "accumulated-idle-time",
    "accumulated-busy-time",
)


def vertex_answer(found: FoundVertex, now: Millis) -> VertexAnswer:
    subtasks = [
        subtask_attempt(found, index, region.current, now)
        for index, region in enumerate(found.regions)
    ]
    return VertexAnswer(
        id=found.id,
        name=found.vertex.name,
        parallelism=max(1, len(found.regions)),
        max_parallelism=REPORTED_MAX_PARALLELISM,
        now=now,
        subtasks=subtasks,
        aggregated=_aggregate(subtasks),
    )


def subtask_attempt(
    found: FoundVertex, subtask: int, attempt: AttemptDetails, now: Millis
) -> SubtaskAttempt:
    start, end = span_of([attempt])
    region = msgspec.structs.replace(found.region(subtask), current=attempt)
    return SubtaskAttempt(
        subtask=subtask,
        status=attempt.state,
        attempt=attempt.number,
        endpoint=attempt.task_executor or UNASSIGNED,
        start_time=start,
        end_time=end,
        duration=span_duration(start, end, now),
        metrics=metrics_of(found.job, found.vertex, [region]),
        taskmanager_id=attempt.task_executor or UNASSIGNED,
        status_duration=_time_in_states(attempt, now),
        start_time_again=start,
    )


def _time_in_states(attempt: AttemptDetails, now: Millis) -> dict[ExecutionState, int]:
    """Time in each state up to now. Terminal states are left out: they do not end."""
    steps = sorted(attempt.timestamps.items(), key=lambda step: step[1])
    ends = [at for _, at in steps[1:]] + [now]
    return {
        state: max(0, until - since)
        for (state, since), until in zip(steps, ends, strict=True)
        if not state.terminal
    }


def _aggregate(subtasks: Sequence[SubtaskAttempt]) -> VertexAggregates:
    return VertexAggregates(
        metrics=summarize_by_name(_numeric_metrics(subtask.metrics) for subtask in subtasks),
        status_duration=summarize_by_name(
            {state.value: time for state, time in subtask.status_duration.items()}
            for subtask in subtasks
        ),
    )


def _numeric_metrics(metrics: VertexMetrics) -> dict[str, int]:
    values = msgspec.to_builtins(metrics)
    return {name: int(values[name]) for name in _NUMERIC_METRICS}


def subtask_times(found: FoundVertex, now: Millis) -> SubtaskTimes:
    return SubtaskTimes(
        id=found.id,
        name=found.vertex.name,
        now=now,
        subtasks=[
            _subtask_time(index, region.current, now) for index, region in enumerate(found.regions)
        ],
    )


def _subtask_time(subtask: int, attempt: AttemptDetails, now: Millis) -> SubtaskTime:
    start, end = span_of([attempt])
    return SubtaskTime(
        subtask=subtask,
        endpoint=attempt.task_executor or UNASSIGNED,
        duration=span_duration(start, end, now),
        timestamps={state: attempt.timestamps.get(state, 0) for state in ExecutionState},
    )


def vertex_task_managers(found: FoundVertex, now: Millis) -> VertexTaskManagers:
    by_executor: dict[str, list[tuple[int, RegionDetails]]] = {}
    for index, region in enumerate(found.regions):
        executor = region.current.task_executor or UNASSIGNED
        by_executor.setdefault(executor, []).append((index, region))
    return VertexTaskManagers(
        id=found.id,
        name=found.vertex.name,
        now=now,
        taskmanagers=[
            _vertex_task_manager(found, executor, held, now)
            for executor, held in by_executor.items()
        ],
    )


def _vertex_task_manager(
    found: FoundVertex, executor: str, held: Iterable[tuple[int, RegionDetails]], now: Millis
) -> VertexTaskManager:
    held = list(held)
    attempts = [region.current for _, region in held]
    start, end = span_of(attempts)
    subtasks = [subtask_attempt(found, index, region.current, now) for index, region in held]
    return VertexTaskManager(
        endpoint=executor,
        status=combine_states([attempt.state for attempt in attempts]),
        start_time=start,
        end_time=end,
        duration=span_duration(start, end, now),
        metrics=metrics_of(found.job, found.vertex, [region for _, region in held]),
        status_counts=count_states(attempt.state for attempt in attempts),
        taskmanager_id=executor,
        aggregated=_aggregate(subtasks),
    )
