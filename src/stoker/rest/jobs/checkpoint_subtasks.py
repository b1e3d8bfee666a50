"""One checkpoint at one vertex: what each region that contains the vertex did."""

import msgspec

from stoker.api.checkpoints import (
    Alignment,
    Phases,
    PhaseSummaries,
    SubtaskCheckpoint,
    SubtaskSummaries,
    VertexCheckpoint,
)
from stoker.core.checkpoints import BatchFigures, CheckpointEntry
from stoker.core.errors import NotFound
from stoker.core.results import (
    RegionDetails,
)
from stoker.core.values import Millis
from stoker.rest.jobs.checkpoint_summaries import summary_of
from stoker.rest.jobs.checkpoint_views import is_complete, regions_of, size_of, task_checkpoint
from stoker.rest.jobs.subtask_views import FoundVertex
from stoker.rest.jobs.times import duration

_BEFORE_THE_WORK = ("latestOffset", "getBatch", "queryPlanning")
_IN_THE_LOGS = ("walCommit", "commitOffsets")
"""Spark's names of the phases of a batch; state is written by the tasks of the batch itself."""


def vertex_checkpoint(found: FoundVertex, entry: CheckpointEntry, now: Millis) -> VertexCheckpoint:
    job, vertex = found.job, found.vertex.name
    regions = regions_of(job, entry, vertex)
    if not regions:
        raise NotFound(f"checkpoint {entry.id} of job {job.job_id} is not of vertex {found.id}")
    whole = task_checkpoint(job, entry, vertex, now)
    done = [_subtask(found, entry, region) for region in regions if is_complete(entry)]
    pending = [
        SubtaskCheckpoint(
            class_name="pending", index=found.regions.index(region), status="pending_or_failed"
        )
        for region in regions
        if not is_complete(entry)
    ]
    return VertexCheckpoint(
        **msgspec.structs.asdict(whole),
        summary=_summaries(entry, done),
        subtasks=[*done, *pending],
    )


def _subtask(
    found: FoundVertex, entry: CheckpointEntry, region: RegionDetails
) -> SubtaskCheckpoint:
    ended = entry.at if entry.ended_at is None else entry.ended_at
    size = size_of(entry, region, found.vertex.name)
    return SubtaskCheckpoint(
        class_name="completed",
        index=found.regions.index(region),
        status="completed",
        ack_timestamp=ended,
        end_to_end_duration=duration(entry.at, ended, ended),
        checkpointed_size=size,
        state_size=size,
        checkpoint=Phases(sync=_time_in(entry.figures, _IN_THE_LOGS)),
        alignment=Alignment(),
        start_delay=_time_in(entry.figures, _BEFORE_THE_WORK),
        unaligned_checkpoint=False,
        aborted=False,
    )


def _time_in(figures: BatchFigures | None, phases: tuple[str, ...]) -> int:
    return 0 if figures is None else sum(figures.phases.get(name, 0) for name in phases)


def _summaries(entry: CheckpointEntry, done: list[SubtaskCheckpoint]) -> SubtaskSummaries:
    """Flink keeps no quantiles of the subtasks of one checkpoint."""
    sizes = summary_of(
        (each.state_size for each in done if isinstance(each.state_size, int)), quantiles=False
    )
    durations = summary_of(
        (each.end_to_end_duration for each in done if isinstance(each.end_to_end_duration, int)),
        quantiles=False,
    )
    delays = [_time_in(entry.figures, _BEFORE_THE_WORK) for _ in done]
    logs = [_time_in(entry.figures, _IN_THE_LOGS) for _ in done]
    return SubtaskSummaries(
        checkpointed_size=sizes,
        state_size=sizes,
        end_to_end_duration=durations,
        checkpoint_duration=PhaseSummaries(sync=summary_of(logs, quantiles=False)),
        start_delay=summary_of(delays, quantiles=False),
    )
