"""Jobs for tests: one in each state, a streaming job, and the graph of a new one."""

import hashlib

import msgspec

from stoker.core.checkpoints import BatchFigures, CheckpointKind, RestoredFrom, SavepointTaken
from stoker.core.graph import (
    Artifact,
    ArtifactKind,
    FormatRead,
    FormatWrite,
    JobGraph,
    JobType,
    Sink,
    Source,
)
from stoker.core.ids import AttemptId, JobId, RegionId, ResourceId
from stoker.core.results import (
    AttemptDetails,
    Failure,
    FailureRecord,
    JobDetails,
    PlanVertex,
    Progress,
    RegionDetails,
)
from stoker.core.states import ExecutionState, JobStatus
from stoker.jobmaster.checkpoints import CheckpointHistory

RUNNING = JobId("1" * 32)
FINISHED = JobId("2" * 32)
FAILED = JobId("3" * 32)
CANCELED = JobId("4" * 32)
BROKEN = JobId("5" * 32)
STREAM = JobId("6" * 32)
UNKNOWN = JobId("f" * 32)
NEW = JobId("a" * 32)
NOW = 1_790_000_100_000
START = 1_790_000_000_000
EXECUTOR = ResourceId("task-executor-0badcafe")


def job_details(job_id: JobId, status: JobStatus, state: ExecutionState) -> JobDetails:
    """A source read by two sinks, so two regions that share one vertex."""
    ended = status.globally_terminal
    stamps = {ExecutionState.DEPLOYING: START + 20, state: START + 50}
    progress = Progress(tasks_total=4, tasks_done=2, rows_read=100, rows_written=40, bytes_read=999)

    def region(name: str) -> RegionDetails:
        attempt = AttemptDetails(
            attempt=AttemptId(f"{name}-1"),
            number=0,
            state=state,
            task_executor=EXECUTOR,
            timestamps=stamps,
            progress=progress,
        )
        return RegionDetails(
            id=RegionId(name), vertices=("orders", name), streaming=False, current=attempt
        )

    return JobDetails(
        job_id=job_id,
        name="orders-per-hour",
        job_type=JobType.BATCH,
        status=status,
        timestamps={JobStatus.CREATED: START, status: START + 60},
        start=START,
        end=START + 60 if ended else None,
        regions=(region("big"), region("small")),
        failures=tuple(reversed(_failures())) if status is JobStatus.FAILED else (),
        plan=(
            PlanVertex(name="orders", kind="source", description="json <in/>"),
            PlanVertex(name="big", kind="sink", inputs=("orders",)),
            PlanVertex(name="small", kind="sink", inputs=("orders",)),
        ),
        configuration={"spark.sql.shuffle.partitions": "4", "spark.hadoop.s3.secret": "hunter2"},
        parameters={"day": "2026-11-01", "db-password": "hunter2"},
    )


def streaming_details() -> JobDetails:
    """Two queries that read one source, with checkpoints and savepoints of all kinds."""
    history = CheckpointHistory([RegionId("big"), RegionId("small")], size=10)
    history.restored(RestoredFrom(path="/saved/zero", at=START, batches={"big": 4, "small": 3}))
    batches = {name: tuple(_batch(name, number) for number in range(5, 8)) for name in _STATE}
    for name, each in batches.items():
        history.batches_committed(RegionId(name), each)
    history.savepoint_started("one", CheckpointKind.SAVEPOINT, START + 8000)
    taken = SavepointTaken(path="/saved/one", size_bytes=4000, batches={"big": 7, "small": 7})
    history.savepoint_completed("one", taken, START + 8500)
    history.savepoint_started("two", CheckpointKind.SAVEPOINT, START + 9000)
    history.savepoint_failed("two", "the disk is full", START + 9100)
    history.savepoint_started("three", CheckpointKind.STOP_SAVEPOINT, START + 9500)
    plain = job_details(STREAM, JobStatus.RUNNING, ExecutionState.RUNNING)
    regions = tuple(_streaming(region, batches[region.id]) for region in plain.regions)
    return msgspec.structs.replace(
        plain, job_type=JobType.STREAMING, regions=regions, checkpoints=history.view()
    )


_STATE = {"big": 1000, "small": 0}
"""Bytes of state that each query adds with every batch."""


def _batch(region: str, number: int) -> BatchFigures:
    return BatchFigures(
        batch_id=number,
        at=START + number * 1000,
        rows=number * 10,
        duration_ms=number * 100,
        phases={"addBatch": 90, "walCommit": 20, "commitOffsets": 30, "queryPlanning": 7},
        state_rows=_STATE[region] // 10,
        state_bytes=_STATE[region] * number,
        watermark="2026-09-21T14:13:20.000Z" if region == "big" else None,
    )


def _streaming(region: RegionDetails, batches: tuple[BatchFigures, ...]) -> RegionDetails:
    progress = Progress(
        batch_id=7, batches=3, rows_read=180, rows_per_second=12.5, recent_batches=batches
    )
    attempt = msgspec.structs.replace(region.current, progress=progress, number=1)
    former = msgspec.structs.replace(region.current, progress=Progress(batch_id=6, batches=2))
    return msgspec.structs.replace(region, streaming=True, current=attempt, former=(former,))


def _failures() -> list[FailureRecord]:
    return [
        FailureRecord(
            failure=Failure(
                error="AnalysisException",
                message=f"no column number {number}",
                labels={"kind": "user" if number % 2 else "system"},
            ),
            at=START + number,
            region=RegionId("big"),
            attempt_number=number,
            task_executor=EXECUTOR,
        )
        for number in range(3)
    ]


def new_graph(**changes: object) -> JobGraph:
    facts: dict[str, object] = {
        "job_id": NEW,
        "name": "copy",
        "vertices": (
            Source(name="numbers", read=FormatRead(format="json", path="in/")),
            Sink(name="copies", input="numbers", write=FormatWrite(format="json", path="out/")),
        ),
    }
    return JobGraph(**(facts | changes))  # type: ignore[arg-type]


def artifact(content: bytes, name: str = "lib.whl") -> Artifact:
    digest = hashlib.sha256(content).hexdigest()
    return Artifact(name=name, kind=ArtifactKind.WHEEL, sha256=digest, size=len(content))
