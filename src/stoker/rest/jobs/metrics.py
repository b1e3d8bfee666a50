"""Requests for the metrics of jobs, vertices and subtasks.

A metric that Flink has, too, goes by Flink's name. The other names begin with `spark`. Those of a
streaming query describe its last batch:

| name | unit | Spark's own name |
|---|---|---|
| sparkRowsPerSecond | rows | processedRowsPerSecond |
| sparkBatchRows | rows | numInputRows |
| sparkBatchDuration | ms | triggerExecution |
| sparkBatchPhase.NAME | ms | the other parts of durationMs |
| sparkStateRows | rows | numRowsTotal of the state operators |
| sparkStateBytes | bytes | memoryUsedBytes of the state operators |
| sparkWatermark | ms since 1970 | watermark of the event time |
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from stoker.api.metrics import AggregatedMetric, Metric
from stoker.core.checkpoints import BatchFigures
from stoker.core.errors import JobNotFound
from stoker.core.graph import JobType
from stoker.core.results import AttemptDetails, JobDetails, Progress, RegionDetails, watermark_of
from stoker.core.states import ExecutionState, JobStatus
from stoker.core.values import Millis
from stoker.rest.http.routing import QueryParameter, get
from stoker.rest.jobs.aggregation import (
    aggregate_metrics,
    parse_indices,
    parse_modes,
    parse_names,
    select_metrics,
)
from stoker.rest.jobs.lookup import FoundVertex, load_job, load_vertex
from stoker.rest.jobs.vertex_views import is_only_source
from stoker.rest.requests.parameters import JobIdText, VertexIdText, parse_count, parse_job_id
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

_TIME_IN = {
    "initializingTime": JobStatus.INITIALIZING,
    "createdTime": JobStatus.CREATED,
    "runningTime": JobStatus.RUNNING,
    "restartingTime": JobStatus.RESTARTING,
    "failingTime": JobStatus.FAILING,
    "cancellingTime": JobStatus.CANCELLING,
}
"""Time in the job's current state; the metrics of all other states are 0, as in Flink."""


def metrics_of_job(job: JobDetails, now: Millis) -> dict[str, str]:
    restarts = sum(len(region.former) for region in job.regions)
    since = job.timestamps.get(job.status, job.start)
    elapsed = max(0, now - since)
    is_running = job.status is JobStatus.RUNNING
    is_down = job.status in (JobStatus.RESTARTING, JobStatus.FAILING)
    batches = sum(region.current.progress.batches for region in job.regions)
    figures = {name: elapsed if job.status is state else 0 for name, state in _TIME_IN.items()}
    figures |= {
        "uptime": elapsed if is_running else 0,
        "downtime": elapsed if is_down else 0,
        "numRestarts": restarts,
        "fullRestarts": restarts,
        "numRescales": 0,
        "deployingTime": _time_in(job, ExecutionState.DEPLOYING, now),
        "allSubTasksRunningOrFinishedTime": _time_all_are_running(job, now),
        "sparkBatches": batches,
        "sparkTasksTotal": sum(region.current.progress.tasks_total for region in job.regions),
        "sparkTasksDone": sum(region.current.progress.tasks_done for region in job.regions),
    }
    if job.job_type is not JobType.STREAMING:
        return _as_text(figures)
    return _as_text({**figures, **_checkpoint_figures(job), **combine_stream_figures(job.regions)})


def _as_text(figures: Mapping[str, float | int | str | None]) -> dict[str, str]:
    return {name: str(value) for name, value in figures.items() if value is not None}


def _checkpoint_figures(job: JobDetails) -> dict[str, int | str]:
    counts, latest = job.checkpoints.counts, job.checkpoints.latest_completed
    figures: dict[str, int | str] = {
        "totalNumberOfCheckpoints": counts.total,
        "numberOfInProgressCheckpoints": counts.in_progress,
        "numberOfCompletedCheckpoints": counts.completed,
        "numberOfFailedCheckpoints": counts.failed,
    }
    if latest is not None:
        figures |= {
            "lastCompletedCheckpointId": latest.id,
            "lastCheckpointDuration": max(0, (latest.ended_at or latest.at) - latest.at),
            "lastCheckpointSize": latest.size_bytes,
            "lastCheckpointFullSize": latest.size_bytes,
        }
    if (savepoint := job.checkpoints.latest_savepoint) is not None and savepoint.path:
        figures["lastCheckpointExternalPath"] = savepoint.path
    if (restored := job.checkpoints.restored) is not None:
        figures["lastCheckpointRestoreTimestamp"] = restored.at
    return figures


def _time_in(job: JobDetails, state: ExecutionState, now: Millis) -> int:
    since = [
        region.current.timestamps[state]
        for region in job.regions
        if region.current.state is state and state in region.current.timestamps
    ]
    return max(0, now - min(since)) if since else 0


def _time_all_are_running(job: JobDetails, now: Millis) -> int:
    begun = (ExecutionState.RUNNING, ExecutionState.FINISHED)
    if not job.regions or any(region.current.state not in begun for region in job.regions):
        return 0
    return max(0, now - max(_running_since(region.current, job.start) for region in job.regions))


def _running_since(attempt: AttemptDetails, otherwise: Millis) -> Millis:
    return attempt.timestamps.get(ExecutionState.RUNNING, otherwise)


def metrics_of_subtask(region: RegionDetails, vertex: str, *, reads: bool) -> dict[str, str]:
    """Metrics of a region: its last vertex shows what it writes, its only source what it reads."""
    progress = region.current.progress
    writes = region.id == vertex
    known: dict[str, float | int | None] = {}
    if reads:
        known |= {
            "numRecordsIn": progress.rows_read,
            "numBytesIn": progress.bytes_read,
            "numRecordsInPerSecond": progress.rows_per_second,
        }
    if writes:
        known |= {
            "numRecordsOut": progress.rows_written,
            "numBytesOut": progress.bytes_written,
            "sparkTasksTotal": progress.tasks_total,
            "sparkTasksDone": progress.tasks_done,
        }
        if region.streaming:
            known |= {"sparkBatchId": progress.batch_id, "sparkBatches": progress.batches}
            known |= stream_figures(progress)
    if region.streaming:
        known["currentInputWatermark"] = watermark_of(progress)
    return _as_text(known)


def prefix_with_subtask(subtasks: Iterable[dict[str, str]]) -> dict[str, str]:
    """Join the metrics of all subtasks under names like `0.numRecordsIn`."""
    return {
        f"{index}.{name}": value
        for index, figures in enumerate(subtasks)
        for name, value in figures.items()
    }


WATERMARK = "sparkWatermark"
_SUMS = ("sparkRowsPerSecond", "sparkBatchRows", "sparkStateRows", "sparkStateBytes")
Figure = float | int


def last_figures(progress: Progress) -> BatchFigures | None:
    """Figures of the newest batch; None before the first one."""
    return progress.recent_batches[-1] if progress.recent_batches else None


def stream_figures(progress: Progress) -> dict[str, Figure]:
    """Metrics of one region; unknown values are left out."""
    last = last_figures(progress)
    known: dict[str, Figure] = {}
    if progress.rows_per_second is not None:
        known["sparkRowsPerSecond"] = progress.rows_per_second
    if last is not None:
        known |= {
            "sparkBatchRows": last.rows,
            "sparkBatchDuration": last.duration_ms,
            "sparkStateRows": last.state_rows,
            "sparkStateBytes": last.state_bytes,
        }
        known |= {f"sparkBatchPhase.{name}": value for name, value in last.phases.items()}
    if (watermark := watermark_of(progress)) is not None:
        known[WATERMARK] = watermark
    return known


def combine_stream_figures(regions: Sequence[RegionDetails]) -> dict[str, Figure]:
    """Combine regions: add rows and state, take the slowest batch and the earliest watermark."""
    each = [stream_figures(region.current.progress) for region in regions if region.streaming]
    combined: dict[str, Figure] = {}
    for name in _SUMS:
        if values := [figures[name] for figures in each if name in figures]:
            combined[name] = sum(values)
    if durations := [
        figures["sparkBatchDuration"] for figures in each if "sparkBatchDuration" in figures
    ]:
        combined["sparkBatchDuration"] = max(durations)
    if watermarks := [figures[WATERMARK] for figures in each if WATERMARK in figures]:
        combined[WATERMARK] = min(watermarks)
    return combined


_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"
MetricNames = Annotated[str | None, QueryParameter(name="get", description="names of metrics")]


@get("/jobs/{jobid}/metrics", needs=Permission.QUERY, summary="Metrics of a job")
async def job_metrics(
    jobid: JobIdText, services: RestServices, names: MetricNames = None
) -> list[Metric]:
    job = await load_job(services, jobid)
    return select_metrics(metrics_of_job(job, services.clock()), parse_names(names))


@get(
    "/jobs/metrics",
    needs=Permission.READ,
    summary="Metrics of several jobs, aggregated; by default of all live jobs",
)
async def jobs_metrics(
    services: RestServices,
    names: MetricNames = None,
    agg: str | None = None,
    jobs: str | None = None,
) -> list[AggregatedMetric]:
    modes = parse_modes(agg)
    wanted = [parse_job_id(each) for each in parse_names(jobs) or ()]
    dispatcher = await services.dispatcher()
    if not wanted:
        wanted = list((await services.job_list_snapshot()).jobs.live)
    metrics = []
    for job_id in wanted:
        try:
            metrics.append(metrics_of_job(await dispatcher.job_details(job_id), services.clock()))
        except JobNotFound:
            continue
    return aggregate_metrics(metrics, parse_names(names), modes)


@get(
    f"{_VERTEX}/metrics", needs=Permission.QUERY, summary="Metrics of a vertex, subtask by subtask"
)
async def vertex_metrics(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices, names: MetricNames = None
) -> list[Metric]:
    found = await load_vertex(services, jobid, vertexid)
    metrics = prefix_with_subtask(_metrics(found, region) for region in found.regions)
    return select_metrics(metrics, parse_names(names))


@get(
    f"{_VERTEX}/watermarks",
    needs=Permission.QUERY,
    summary="Watermark of each subtask, in milliseconds since 1970",
)
async def watermarks(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> list[Metric]:
    found = await load_vertex(services, jobid, vertexid)
    known = [watermark_of(region.current.progress) for region in found.regions]
    return [
        Metric(id=f"{index}.currentInputWatermark", value=str(value))
        for index, value in enumerate(known)
        if value is not None
    ]


@get(
    f"{_VERTEX}/subtasks/metrics",
    needs=Permission.QUERY,
    summary="Metrics of the subtasks of a vertex, aggregated",
)
async def subtasks_metrics(
    jobid: JobIdText,
    vertexid: VertexIdText,
    services: RestServices,
    names: MetricNames = None,
    agg: str | None = None,
    subtasks: str | None = None,
) -> list[AggregatedMetric]:
    indices, modes = parse_indices(subtasks), parse_modes(agg)
    found = await load_vertex(services, jobid, vertexid)
    metrics = [
        _metrics(found, region)
        for index, region in enumerate(found.regions)
        if indices is None or index in indices
    ]
    return aggregate_metrics(metrics, parse_names(names), modes)


@get(
    f"{_VERTEX}/subtasks/{{subtaskindex}}/metrics",
    needs=Permission.QUERY,
    summary="Metrics of one subtask",
)
async def subtask_metrics(
    jobid: JobIdText,
    vertexid: VertexIdText,
    subtaskindex: str,
    services: RestServices,
    names: MetricNames = None,
) -> list[Metric]:
    index = parse_count(subtaskindex, "subtaskindex")
    found = await load_vertex(services, jobid, vertexid)
    return select_metrics(_metrics(found, found.region(index)), parse_names(names))


def _metrics(found: FoundVertex, region: RegionDetails) -> dict[str, str]:
    name = found.vertex.name
    return metrics_of_subtask(region, name, reads=is_only_source(found.job, region, name))


METRIC_HANDLERS = (
    job_metrics,
    jobs_metrics,
    vertex_metrics,
    watermarks,
    subtasks_metrics,
    subtask_metrics,
)
