"""Checkpoints of a streaming job: Spark makes one with every batch and keeps its own books."""

from stoker.api.checkpoints import (
    CheckpointConfig,
    CheckpointStatistics,
    Counts,
    Externalization,
)
from stoker.core.errors import NotFound
from stoker.core.graph import JobType
from stoker.core.results import JobDetails


def check_has_checkpoints(job: JobDetails) -> None:
    """Flink answers in the same way for a job that runs without checkpoints."""
    if job.job_type is not JobType.STREAMING:
        raise NotFound(
            f"job {job.job_id} has no checkpoints: it is no streaming job, and a batch job begins "
            "again from its sources or its materialized results"
        )


def checkpoint_statistics(job: JobDetails) -> CheckpointStatistics:
    """How many batches were committed; when each was, and how large, only Spark knows."""
    check_has_checkpoints(job)
    batches = sum(region.current.progress.batches for region in job.regions if region.streaming)
    restored = sum(len(region.former) for region in job.regions if region.streaming)
    return CheckpointStatistics(counts=Counts(total=batches, completed=batches, restored=restored))


def checkpoint_config(job: JobDetails) -> CheckpointConfig:
    check_has_checkpoints(job)
    backend = job.configuration.get(
        "spark.sql.streaming.stateStore.providerClass", "HDFSBackedStateStoreProvider"
    )
    return CheckpointConfig(
        state_backend=backend.rpartition(".")[2],
        checkpoint_storage="StructuredStreamingCheckpoint",
        externalization=Externalization(enabled=True, delete_on_cancellation=True),
    )


def last_batch(job: JobDetails) -> int:
    """The number of the last batch that all streaming regions have committed; -1 for none."""
    numbers = [
        -1 if region.current.progress.batch_id is None else region.current.progress.batch_id
        for region in job.regions
        if region.streaming
    ]
    return min(numbers, default=-1)
