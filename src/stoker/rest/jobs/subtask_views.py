"""A vertex with its subtasks: each region that contains the vertex runs it as one subtask."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from stoker.api.jobs import VertexMetrics
from stoker.api.vertices import (
    Accumulator,
    Aggregated,
    AttemptAccumulators,
    SubtaskAccumulators,
    SubtaskAttempt,
    SubtasksAccumulators,
    SubtaskTime,
    SubtaskTimes,
    VertexAccumulators,
    VertexAnswer,
    VertexTaskManager,
    VertexTaskManagers,
)
from stoker.core.errors import NotFound
from stoker.core.ids import vertex_hex_id
from stoker.core.results import (
    AttemptDetails,
    JobDetails,
    PlanVertex,
    RegionDetails,
)
from stoker.core.states import ExecutionState
from stoker.core.values import Millis
from stoker.rest.jobs.aggregation import distribution
from stoker.rest.jobs.vertex_views import (
    MAX_PARALLELISM,
    count_states,
    duration,
    joint_state,
    metrics_of,
    span_of,
)
from stoker.rest.programs.parts import with_parts

UNASSIGNED = "(unassigned)"
_FIGURES = (
    "read-bytes",
    "write-bytes",
    "read-records",
    "write-records",
    "accumulated-backpressured-time",
    "accumulated-idle-time",
    "accumulated-busy-time",
)


@dataclass(frozen=True, kw_only=True)
class FoundVertex:
    """A vertex of a job, with the regions that run it: one subtask each."""

    job: JobDetails
    vertex: PlanVertex
    regions: tuple[RegionDetails, ...]

    @property
    def id(self) -> str:
        return vertex_hex_id(self.job.job_id, self.vertex.name)

    def region(self, subtask: int) -> RegionDetails:
        if not 0 <= subtask < len(self.regions):
            raise NotFound(
                f"vertex {self.id} has no subtask {subtask}; it has {len(self.regions)}, from 0 on"
            )
        return self.regions[subtask]

    def attempt(self, subtask: int, number: int) -> AttemptDetails:
        region = self.region(subtask)
        for attempt in (region.current, *region.former):
            if attempt.number == number:
                return attempt
        raise NotFound(f"subtask {subtask} of vertex {self.id} has no attempt {number}")


def find_vertex(job: JobDetails, vertex_id: str) -> FoundVertex:
    job = with_parts(job)
    for vertex in job.plan:
        if vertex_hex_id(job.job_id, vertex.name) == vertex_id:
            regions = tuple(region for region in job.regions if vertex.name in region.vertices)
            return FoundVertex(job=job, vertex=vertex, regions=regions)
    raise NotFound(f"job {job.job_id} has no vertex {vertex_id}; GET /jobs/:id lists its vertices")


def vertex_answer(found: FoundVertex, now: Millis) -> VertexAnswer:
    subtasks = [
        subtask_attempt(found, index, region.current, now)
        for index, region in enumerate(found.regions)
    ]
    return VertexAnswer(
        id=found.id,
        name=found.vertex.name,
        parallelism=max(1, len(found.regions)),
        max_parallelism=MAX_PARALLELISM,
        now=now,
        subtasks=subtasks,
        aggregated=_aggregated(subtasks),
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
        duration=-1 if start < 0 else duration(start, None if end < 0 else end, now),
        metrics=metrics_of(found.job, found.vertex, [region]),
        taskmanager_id=attempt.task_executor or UNASSIGNED,
        status_duration=_time_in_states(attempt, now),
        start_time_again=start,
    )


def _time_in_states(attempt: AttemptDetails, now: Millis) -> dict[ExecutionState, int]:
    """How long it was in each state that it has left or is in; ended ones are not counted."""
    steps = sorted(attempt.timestamps.items(), key=lambda step: step[1])
    ends = [at for _, at in steps[1:]] + [now]
    return {
        state: max(0, until - since)
        for (state, since), until in zip(steps, ends, strict=True)
        if not state.terminal
    }


def _aggregated(subtasks: Sequence[SubtaskAttempt]) -> Aggregated:
    return Aggregated(
        metrics=distribution(_figures(subtask.metrics) for subtask in subtasks),
        status_duration=distribution(
            {state.value: time for state, time in subtask.status_duration.items()}
            for subtask in subtasks
        ),
    )


def _figures(metrics: VertexMetrics) -> dict[str, int]:
    plain = msgspec.to_builtins(metrics)
    return {name: int(plain[name]) for name in _FIGURES}


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
        duration=-1 if start < 0 else duration(start, None if end < 0 else end, now),
        timestamps={state: attempt.timestamps.get(state, 0) for state in ExecutionState},
    )


def vertex_task_managers(found: FoundVertex, now: Millis) -> VertexTaskManagers:
    places: dict[str, list[tuple[int, RegionDetails]]] = {}
    for index, region in enumerate(found.regions):
        executor = region.current.task_executor or UNASSIGNED
        places.setdefault(executor, []).append((index, region))
    return VertexTaskManagers(
        id=found.id,
        name=found.vertex.name,
        now=now,
        taskmanagers=[_place(found, executor, held, now) for executor, held in places.items()],
    )


def _place(
    found: FoundVertex, executor: str, held: Iterable[tuple[int, RegionDetails]], now: Millis
) -> VertexTaskManager:
    held = list(held)
    attempts = [region.current for _, region in held]
    start, end = span_of(attempts)
    subtasks = [subtask_attempt(found, index, region.current, now) for index, region in held]
    return VertexTaskManager(
        endpoint=executor,
        status=joint_state([attempt.state for attempt in attempts]),
        start_time=start,
        end_time=end,
        duration=-1 if start < 0 else duration(start, None if end < 0 else end, now),
        metrics=metrics_of(found.job, found.vertex, [region for _, region in held]),
        status_counts=count_states(attempt.state for attempt in attempts),
        taskmanager_id=executor,
        aggregated=_aggregated(subtasks),
    )


# Accumulators: what Spark counts of a region is the nearest that it has to them.


def accumulators_of(attempts: Iterable[AttemptDetails]) -> list[Accumulator]:
    totals: dict[str, int] = {}
    for attempt in attempts:
        progress = attempt.progress
        counted = {
            "rows_read": progress.rows_read,
            "rows_written": progress.rows_written,
            "bytes_read": progress.bytes_read,
            "bytes_written": progress.bytes_written,
        }
        for name, value in counted.items():
            if value is not None:
                totals[name] = totals.get(name, 0) + value
    return [
        Accumulator(name=name, type="LongCounter", value=str(value))
        for name, value in totals.items()
    ]


def vertex_accumulators(found: FoundVertex) -> VertexAccumulators:
    attempts = (region.current for region in found.regions)
    return VertexAccumulators(id=found.id, user_accumulators=accumulators_of(attempts))


def subtasks_accumulators(found: FoundVertex) -> SubtasksAccumulators:
    return SubtasksAccumulators(
        id=found.id,
        parallelism=max(1, len(found.regions)),
        subtasks=[
            SubtaskAccumulators(
                subtask=index,
                attempt=region.current.number,
                endpoint=region.current.task_executor or UNASSIGNED,
                user_accumulators=accumulators_of([region.current]),
            )
            for index, region in enumerate(found.regions)
        ],
    )


def attempt_accumulators(found: FoundVertex, subtask: int, number: int) -> AttemptAccumulators:
    attempt = found.attempt(subtask, number)
    return AttemptAccumulators(
        subtask=subtask,
        attempt=number,
        id=attempt.attempt,
        user_accumulators=accumulators_of([attempt]),
    )
