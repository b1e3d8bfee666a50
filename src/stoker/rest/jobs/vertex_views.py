"""The vertices of a job: their state, times and metrics, as far as Spark can tell them apart.

Stoker runs regions, and Spark counts what a whole region reads and writes. What a region reads is
shown at its source if it has only one, what it writes at its last vertex, and nothing in between.
"""

from collections.abc import Iterable, Sequence

from stoker.api.jobs import NOT_ENDED, JobVertex
from stoker.api.metrics import VertexMetrics
from stoker.core.ids import vertex_hex_id
from stoker.core.results import AttemptDetails, JobDetails, PlanVertex, RegionDetails
from stoker.core.states import ExecutionState
from stoker.core.values import Millis
from stoker.rest.programs.parts import with_parts

REPORTED_MAX_PARALLELISM = 128
"""Flink's default. Spark has no such bound, but Flink's clients expect a number."""

_WORST_FIRST = (
    ExecutionState.FAILED,
    ExecutionState.CANCELING,
    ExecutionState.CANCELED,
    ExecutionState.RECONCILING,
    ExecutionState.RUNNING,
    ExecutionState.INITIALIZING,
    ExecutionState.DEPLOYING,
    ExecutionState.SCHEDULED,
    ExecutionState.CREATED,
)


def count_states(states: Iterable[ExecutionState]) -> dict[ExecutionState, int]:
    """Count the states; every state is in the answer, with 0 if need be."""
    counts = dict.fromkeys(ExecutionState, 0)
    for state in states:
        counts[state] += 1
    return counts


def combine_states(states: Sequence[ExecutionState]) -> ExecutionState:
    """State of a vertex that is part of several regions: the worst of theirs."""
    if not states:
        return ExecutionState.CREATED
    if all(state is ExecutionState.FINISHED for state in states):
        return ExecutionState.FINISHED
    worst = next(state for state in _WORST_FIRST if state in states)
    if ExecutionState.FINISHED in states and worst in _NOT_YET_RUNNING:
        return ExecutionState.RUNNING
    return worst


_NOT_YET_RUNNING = (
    ExecutionState.INITIALIZING,
    ExecutionState.DEPLOYING,
    ExecutionState.SCHEDULED,
    ExecutionState.CREATED,
)


def vertices_of(job: JobDetails, now: Millis) -> list[JobVertex]:
    job = with_parts(job)
    return [_vertex(job, vertex, now) for vertex in job.plan]


def _vertex(job: JobDetails, vertex: PlanVertex, now: Millis) -> JobVertex:
    regions = [region for region in job.regions if vertex.name in region.vertices]
    attempts = [region.current for region in regions]
    start, end = span_of(attempts)
    group = regions[0].id if regions else vertex.name
    return JobVertex(
        id=vertex_hex_id(job.job_id, vertex.name),
        slot_sharing_group_id=vertex_hex_id(job.job_id, f"region/{group}"),
        name=vertex.name,
        max_parallelism=REPORTED_MAX_PARALLELISM,
        parallelism=max(1, len(regions)),
        status=combine_states([attempt.state for attempt in attempts]),
        start_time=start,
        end_time=end,
        duration=span_duration(start, end, now),
        tasks=count_states(attempt.state for attempt in attempts),
        metrics=metrics_of(job, vertex, regions),
    )


def span_of(attempts: list[AttemptDetails]) -> tuple[int, int]:
    """First deployment and last end; -1 for what has not happened yet."""
    starts = [
        attempt.timestamps[ExecutionState.DEPLOYING]
        for attempt in attempts
        if ExecutionState.DEPLOYING in attempt.timestamps
    ]
    if attempts and all(attempt.state.terminal for attempt in attempts):
        end = max(attempt.timestamps.get(attempt.state, -1) for attempt in attempts)
    else:
        end = -1
    return min(starts, default=-1), end


def span_duration(start: int, end: int, now: Millis) -> int:
    """Milliseconds of a span up to now; -1 if it has not begun."""
    return -1 if start < 0 else duration(start, None if end < 0 else end, now)


def metrics_of(job: JobDetails, vertex: PlanVertex, regions: list[RegionDetails]) -> VertexMetrics:
    """Metrics of a vertex in these regions; `complete` is false when Spark gives no number."""
    sources = _sources(job)
    reading = [region for region in regions if _only_source(region, sources) == vertex.name]
    writing = [region for region in regions if region.id == vertex.name]
    read_bytes = _total(region.current.progress.bytes_read for region in reading)
    read_records = _total(region.current.progress.rows_read for region in reading)
    write_bytes = _total(region.current.progress.bytes_written for region in writing)
    write_records = _total(region.current.progress.rows_written for region in writing)
    return VertexMetrics(
        read_bytes=read_bytes or 0,
        read_bytes_complete=read_bytes is not None,
        read_records=read_records or 0,
        read_records_complete=read_records is not None,
        write_bytes=write_bytes or 0,
        write_bytes_complete=write_bytes is not None,
        write_records=write_records or 0,
        write_records_complete=write_records is not None,
    )


def _only_source(region: RegionDetails, sources: set[str]) -> str | None:
    """The only source of a region; with several, Spark does not say which one read how much."""
    readers = [name for name in region.vertices if name in sources]
    return readers[0] if len(readers) == 1 else None


def _total(figures: Iterable[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def is_only_source(job: JobDetails, region: RegionDetails, vertex: str) -> bool:
    """Whether this vertex reads everything that the region reads."""
    return _only_source(region, _sources(job)) == vertex


def _sources(job: JobDetails) -> set[str]:
    return {vertex.name for vertex in job.plan if vertex.kind == "source"}


def end_time(end: Millis | None) -> int:
    return NOT_ENDED if end is None else end


def duration(start: Millis, end: Millis | None, now: Millis) -> int:
    """Milliseconds until the end or until now. Never negative, although clocks differ."""
    return max(0, (now if end is None else end) - start)
