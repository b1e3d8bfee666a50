"""Checkpoints of a streaming job: Spark makes one with every batch, and savepoints are copies.

A checkpoint is that of one region, a savepoint that of all streaming regions. As everywhere, a
region is one subtask of each vertex in it, and its figures are told by the vertex at its end.
"""

from collections.abc import Sequence

import msgspec

from stoker.api.checkpoints import (
    NOT_ADDRESSABLE,
    CheckpointAlignment,
    CheckpointAnswer,
    CheckpointConfig,
    CheckpointExternalization,
    CheckpointPhases,
    CheckpointStatistics,
    CheckpointSummaries,
    CheckpointTotals,
    LatestCheckpoints,
    PhaseSummaries,
    RestoredCheckpoint,
    SubtaskCheckpoint,
    SubtaskSummaries,
    TaskCheckpoint,
    VertexCheckpoint,
)
from stoker.core.checkpoints import (
    BatchFigures,
    CheckpointEntry,
    CheckpointKind,
    CheckpointStatus,
    RestoredFrom,
)
from stoker.core.errors import NotFound
from stoker.core.graph import JobType
from stoker.core.ids import vertex_hex_id
from stoker.core.results import (
    JobDetails,
    RegionDetails,
)
from stoker.core.values import Millis
from stoker.rest.jobs.aggregation import summary_of
from stoker.rest.jobs.lookup import FoundVertex
from stoker.rest.jobs.vertex_views import duration
from stoker.savepoints.options import Retention, SavepointOptions

_TYPES = {
    CheckpointKind.CHECKPOINT: "CHECKPOINT",
    CheckpointKind.SAVEPOINT: "SAVEPOINT",
    CheckpointKind.STOP_SAVEPOINT: "SYNC_SAVEPOINT",
}
_FORMAT = "NATIVE"
"""A savepoint holds the files that Spark wrote, in Spark's own form."""


def check_has_checkpoints(job: JobDetails) -> None:
    """Flink answers in the same way for a job that runs without checkpoints."""
    if job.job_type is not JobType.STREAMING:
        raise NotFound(
            f"job {job.job_id} has no checkpoints: it is no streaming job, and a batch job begins "
            "again from its sources or its materialized results"
        )


def checkpoint_statistics(job: JobDetails, now: Millis) -> CheckpointStatistics:
    """What the job's master remembers, under the present leader."""
    check_has_checkpoints(job)
    known = job.checkpoints
    history = [checkpoint(job, entry, now) for entry in known.history]
    return CheckpointStatistics(
        counts=_counts(job),
        summary=_summaries([each for each in history if each.class_name == "completed"]),
        latest=LatestCheckpoints(
            completed=_maybe(job, known.latest_completed, now),
            savepoint=_maybe(job, known.latest_savepoint, now),
            failed=_maybe(job, known.latest_failed, now),
            restored=None if known.restored is None else _restored(known.restored),
        ),
        history=history,
    )


def _counts(job: JobDetails) -> CheckpointTotals:
    """An attempt after one that had committed a batch has begun from that batch."""
    counts = job.checkpoints.counts
    again = sum(
        attempt.progress.batch_id is not None
        for region in streaming_regions(job)
        for attempt in region.former
    )
    return CheckpointTotals(
        restored=counts.restored + again,
        total=counts.total,
        in_progress=counts.in_progress,
        completed=counts.completed,
        failed=counts.failed,
    )


def _summaries(completed: Sequence[CheckpointAnswer]) -> CheckpointSummaries:
    return CheckpointSummaries(
        checkpointed_size=summary_of(each.checkpointed_size for each in completed),
        state_size=summary_of(each.state_size for each in completed),
        end_to_end_duration=summary_of(each.end_to_end_duration for each in completed),
        processed_data=summary_of(each.processed_data for each in completed),
        persisted_data=summary_of(each.persisted_data for each in completed),
    )


def _maybe(job: JobDetails, entry: CheckpointEntry | None, now: Millis) -> CheckpointAnswer | None:
    return None if entry is None else checkpoint(job, entry, now)


def _restored(origin: RestoredFrom) -> RestoredCheckpoint:
    return RestoredCheckpoint(
        id=max(origin.batches.values(), default=0),
        restore_timestamp=origin.at,
        is_savepoint=origin.kind is not CheckpointKind.CHECKPOINT,
        external_path=origin.path,
    )


def checkpoint(job: JobDetails, entry: CheckpointEntry, now: Millis) -> CheckpointAnswer:
    """Without what each vertex did: nobody wants that ten times over."""
    subtasks = sum(len(region.vertices) for region in regions_of(job, entry))
    is_savepoint = entry.kind is not CheckpointKind.CHECKPOINT
    told = CheckpointAnswer(
        class_name=entry.status.lower(),
        id=entry.id,
        status=entry.status,
        is_savepoint=is_savepoint,
        savepoint_format=_FORMAT if is_savepoint else None,
        trigger_timestamp=entry.at,
        latest_ack_timestamp=_acknowledged_at(entry),
        checkpointed_size=entry.size_bytes,
        state_size=entry.size_bytes,
        end_to_end_duration=duration(entry.at, entry.ended_at, now),
        num_subtasks=subtasks,
        num_acknowledged_subtasks=subtasks if is_complete(entry) else 0,
        checkpoint_type=_TYPES[entry.kind],
    )
    if is_complete(entry):
        path = entry.path or NOT_ADDRESSABLE
        return msgspec.structs.replace(told, external_path=path, discarded=False)
    if entry.status is CheckpointStatus.FAILED:
        ended = entry.at if entry.ended_at is None else entry.ended_at
        reason = entry.failure or "unknown"
        return msgspec.structs.replace(told, failure_timestamp=ended, failure_message=reason)
    return told


def checkpoint_with_tasks(job: JobDetails, entry: CheckpointEntry, now: Millis) -> CheckpointAnswer:
    tasks = {
        vertex_hex_id(job.job_id, vertex.name): task_checkpoint(job, entry, vertex.name, now)
        for vertex in job.plan
        if regions_of(job, entry, vertex.name)
    }
    return msgspec.structs.replace(checkpoint(job, entry, now), tasks=tasks)


def task_checkpoint(
    job: JobDetails, entry: CheckpointEntry, vertex: str, now: Millis
) -> TaskCheckpoint:
    regions = regions_of(job, entry, vertex)
    size = sum(size_of(entry, region, vertex) for region in regions)
    return TaskCheckpoint(
        id=entry.id,
        status=entry.status,
        latest_ack_timestamp=_acknowledged_at(entry),
        checkpointed_size=size,
        state_size=size,
        end_to_end_duration=duration(entry.at, entry.ended_at, now),
        num_subtasks=len(regions),
        num_acknowledged_subtasks=len(regions) if is_complete(entry) else 0,
    )


def size_of(entry: CheckpointEntry, region: RegionDetails, vertex: str) -> int:
    """How large the part of each region is, nobody counts in a savepoint of several."""
    return entry.size_bytes if entry.region == region.id == vertex else 0


def is_complete(entry: CheckpointEntry) -> bool:
    return entry.status is CheckpointStatus.COMPLETED


def _acknowledged_at(entry: CheckpointEntry) -> int:
    return -1 if entry.ended_at is None or not is_complete(entry) else entry.ended_at


def streaming_regions(job: JobDetails) -> list[RegionDetails]:
    return [region for region in job.regions if region.streaming]


def regions_of(
    job: JobDetails, entry: CheckpointEntry, vertex: str | None = None
) -> list[RegionDetails]:
    """The regions that take part in a checkpoint, or those of them that contain the vertex."""
    return [
        region
        for region in streaming_regions(job)
        if entry.region in (None, region.id) and (vertex is None or vertex in region.vertices)
    ]


def find_checkpoint(job: JobDetails, number: int) -> CheckpointEntry:
    check_has_checkpoints(job)
    known = job.checkpoints
    latest = (known.latest_completed, known.latest_savepoint, known.latest_failed)
    for entry in (*known.history, *latest):
        if entry is not None and entry.id == number:
            return entry
    raise NotFound(
        f"nothing is known of checkpoint {number} of job {job.job_id}; only the last ones are "
        "remembered (web.checkpoints.history), and GET /jobs/:id/checkpoints lists them"
    )


def checkpoint_config(job: JobDetails, options: SavepointOptions) -> CheckpointConfig:
    check_has_checkpoints(job)
    backend = job.configuration.get(
        "spark.sql.streaming.stateStore.providerClass", "HDFSBackedStateStoreProvider"
    )
    retention = options.retention_of(job.configuration)
    return CheckpointConfig(
        timeout=round(options.timeout.total_seconds() * 1000),
        state_backend=backend.rpartition(".")[2],
        checkpoint_storage="StructuredStreamingCheckpoint",
        externalization=CheckpointExternalization(
            enabled=retention is not Retention.NO_EXTERNALIZED_CHECKPOINTS,
            delete_on_cancellation=retention is not Retention.RETAIN_ON_CANCELLATION,
        ),
    )


def last_batch(job: JobDetails) -> int:
    """The number of the last batch that all streaming regions have committed; -1 for none."""
    numbers = [
        -1 if region.current.progress.batch_id is None else region.current.progress.batch_id
        for region in streaming_regions(job)
    ]
    return min(numbers, default=-1)


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
        summary=_subtask_summaries(entry, done),
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
        checkpoint=CheckpointPhases(sync=_time_in(entry.figures, _IN_THE_LOGS)),
        alignment=CheckpointAlignment(),
        start_delay=_time_in(entry.figures, _BEFORE_THE_WORK),
        unaligned_checkpoint=False,
        aborted=False,
    )


def _time_in(figures: BatchFigures | None, phases: tuple[str, ...]) -> int:
    return 0 if figures is None else sum(figures.phases.get(name, 0) for name in phases)


def _subtask_summaries(entry: CheckpointEntry, done: list[SubtaskCheckpoint]) -> SubtaskSummaries:
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
