"""Checkpoints of a streaming job in the form of Flink's REST API.

Flink takes one checkpoint of a whole job; Spark commits one with every batch of every query. So a
checkpoint here belongs to one region, and a savepoint, which Stoker copies while all queries stand
at a batch boundary, belongs to all streaming regions. A region is one subtask of each vertex in it,
and only the vertex at its end shows its sizes: they must not be counted several times.
"""

from collections.abc import Mapping, Sequence

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
from stoker.core.ids import RegionId, vertex_hex_id
from stoker.core.job_options import Retention
from stoker.core.results import JobDetails, RegionDetails
from stoker.core.states import ExecutionState
from stoker.core.values import Millis
from stoker.rest.jobs.aggregation import summary_of
from stoker.rest.jobs.lookup import FoundVertex
from stoker.rest.jobs.vertex_views import duration
from stoker.savepoints.options import SavepointOptions

_TYPES = {
    CheckpointKind.CHECKPOINT: "CHECKPOINT",
    CheckpointKind.SAVEPOINT: "SAVEPOINT",
    CheckpointKind.STOP_SAVEPOINT: "SYNC_SAVEPOINT",
}
_FORMAT = "NATIVE"
"""A savepoint holds the files as Spark wrote them."""


def check_has_checkpoints(job: JobDetails) -> None:
    """Raise NotFound for a batch job, as Flink does for a job without checkpoints."""
    if job.job_type is not JobType.STREAMING:
        raise NotFound(
            f"job {job.job_id} has no checkpoints: it is not a streaming job, and a batch job "
            "restarts from its sources or its materialized results"
        )


def checkpoint_statistics(job: JobDetails, now: Millis) -> CheckpointStatistics:
    """Statistics of the checkpoints that the current master of the job has seen."""
    check_has_checkpoints(job)
    known = job.checkpoints
    history = [checkpoint(job, entry, now) for entry in known.history]
    return CheckpointStatistics(
        counts=_counts(job),
        summary=_summaries([each for each in history if each.class_name == "completed"]),
        latest=LatestCheckpoints(
            completed=_checkpoint_or_none(job, known.latest_completed, now),
            savepoint=_checkpoint_or_none(job, known.latest_savepoint, now),
            failed=_checkpoint_or_none(job, known.latest_failed, now),
            restored=None if known.restored is None else _restored(known.restored),
        ),
        history=history,
    )


def _counts(job: JobDetails) -> CheckpointTotals:
    """Every attempt that followed one with a committed batch counts as a restore, too."""
    counts = job.checkpoints.counts
    restores_by_restart = sum(
        attempt.progress.batch_id is not None
        for region in streaming_regions(job)
        for attempt in region.former
    )
    return CheckpointTotals(
        restored=counts.restored + restores_by_restart,
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


def _checkpoint_or_none(
    job: JobDetails, entry: CheckpointEntry | None, now: Millis
) -> CheckpointAnswer | None:
    return None if entry is None else checkpoint(job, entry, now)


def _restored(origin: RestoredFrom) -> RestoredCheckpoint:
    return RestoredCheckpoint(
        id=max(origin.batches.values(), default=0),
        restore_timestamp=origin.at,
        is_savepoint=origin.kind is not CheckpointKind.CHECKPOINT,
        external_path=origin.path,
    )


def checkpoint(job: JobDetails, entry: CheckpointEntry, now: Millis) -> CheckpointAnswer:
    """One checkpoint without its vertices, which would make the history ten times as large."""
    subtasks = sum(len(region.vertices) for region in regions_of(job, entry))
    is_savepoint = entry.kind is not CheckpointKind.CHECKPOINT
    answer = CheckpointAnswer(
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
        return msgspec.structs.replace(answer, external_path=path, discarded=False)
    if entry.status is CheckpointStatus.FAILED:
        ended = entry.at if entry.ended_at is None else entry.ended_at
        reason = entry.failure or "unknown"
        return msgspec.structs.replace(answer, failure_timestamp=ended, failure_message=reason)
    return answer


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
    """Bytes of a region. In a savepoint of several regions Spark does not count them apart: 0."""
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
    """Regions that take part in a checkpoint; with `vertex`, only those that contain it."""
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
        f"checkpoint {number} of job {job.job_id} is unknown; only the last ones are remembered "
        "(web.checkpoints.history), and GET /jobs/:id/checkpoints lists them"
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


def last_batches(job: JobDetails) -> dict[RegionId, int]:
    """Number of the last batch that each streaming region has committed; -1 when there is none."""
    return {
        region.id: -1 if (batch := region.current.progress.batch_id) is None else batch
        for region in streaming_regions(job)
    }


def has_committed_since(job: JobDetails, before: Mapping[RegionId, int]) -> bool:
    """Whether each query has committed a batch after those of `before`, or will commit no more."""
    # A query that has just restarted reports no batch yet, so a lower number is no checkpoint.
    committed = {id for id, batch in last_batches(job).items() if batch > before.get(id, -1)}
    return bool(committed) and all(
        region.id in committed or region.current.state is ExecutionState.FINISHED
        for region in streaming_regions(job)
    )


_PHASES_BEFORE_WORK = ("latestOffset", "getBatch", "queryPlanning")
_PHASES_OF_LOGS = ("walCommit", "commitOffsets")
"""Phases of a batch under Spark's names. Writing state has no phase: the batch's tasks do it."""


def vertex_checkpoint(found: FoundVertex, entry: CheckpointEntry, now: Millis) -> VertexCheckpoint:
    job, vertex = found.job, found.vertex.name
    regions = regions_of(job, entry, vertex)
    if not regions:
        raise NotFound(
            f"checkpoint {entry.id} of job {job.job_id} does not include vertex {found.id}"
        )
    whole = task_checkpoint(job, entry, vertex, now)
    completed = [_subtask(found, entry, region) for region in regions if is_complete(entry)]
    pending = [
        SubtaskCheckpoint(
            class_name="pending", index=found.regions.index(region), status="pending_or_failed"
        )
        for region in regions
        if not is_complete(entry)
    ]
    return VertexCheckpoint(
        **msgspec.structs.asdict(whole),
        summary=_subtask_summaries(entry, completed),
        subtasks=[*completed, *pending],
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
        checkpoint=CheckpointPhases(sync=_time_in_phases(entry.figures, _PHASES_OF_LOGS)),
        alignment=CheckpointAlignment(),
        start_delay=_time_in_phases(entry.figures, _PHASES_BEFORE_WORK),
        unaligned_checkpoint=False,
        aborted=False,
    )


def _time_in_phases(figures: BatchFigures | None, phases: tuple[str, ...]) -> int:
    return 0 if figures is None else sum(figures.phases.get(name, 0) for name in phases)


def _subtask_summaries(
    entry: CheckpointEntry, completed: list[SubtaskCheckpoint]
) -> SubtaskSummaries:
    """Summaries without quantiles: Flink computes none for the subtasks of a checkpoint."""
    sizes = summary_of(
        (each.state_size for each in completed if isinstance(each.state_size, int)), quantiles=False
    )
    durations = summary_of(
        (
            each.end_to_end_duration
            for each in completed
            if isinstance(each.end_to_end_duration, int)
        ),
        quantiles=False,
    )
    delays = [_time_in_phases(entry.figures, _PHASES_BEFORE_WORK) for _ in completed]
    logs = [_time_in_phases(entry.figures, _PHASES_OF_LOGS) for _ in completed]
    return SubtaskSummaries(
        checkpointed_size=sizes,
        state_size=sizes,
        end_to_end_duration=durations,
        checkpoint_duration=PhaseSummaries(sync=summary_of(logs, quantiles=False)),
        start_delay=summary_of(delays, quantiles=False),
    )
