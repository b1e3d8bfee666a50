"""Requests for the metrics of jobs, vertices and subtasks."""

from typing import Annotated

from stoker.api.metrics import AggregatedMetric, Metric
from stoker.core.errors import JobNotFound
from stoker.core.results import RegionDetails
from stoker.rest.http.routing import QueryParameter, get
from stoker.rest.jobs.aggregation import (
    aggregate_metrics,
    parse_indices,
    parse_modes,
    parse_names,
    select_metrics,
)
from stoker.rest.jobs.lookup import FoundVertex, load_job, load_vertex
from stoker.rest.jobs.metrics import (
    metrics_of_job,
    metrics_of_subtask,
    prefix_with_subtask,
    watermark_of,
)
from stoker.rest.jobs.vertex_views import is_only_source
from stoker.rest.requests.parameters import JobIdText, VertexIdText, parse_count, parse_job_id
from stoker.rest.services import RestServices

_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"
MetricNames = Annotated[str | None, QueryParameter(name="get", description="names of metrics")]


@get("/jobs/{jobid}/metrics", summary="Metrics of a job")
async def job_metrics(
    jobid: JobIdText, services: RestServices, names: MetricNames = None
) -> list[Metric]:
    job = await load_job(services, jobid)
    return select_metrics(metrics_of_job(job, services.clock()), parse_names(names))


@get("/jobs/metrics", summary="Metrics of several jobs, aggregated; by default of all live jobs")
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


@get(f"{_VERTEX}/metrics", summary="Metrics of a vertex, subtask by subtask")
async def vertex_metrics(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices, names: MetricNames = None
) -> list[Metric]:
    found = await load_vertex(services, jobid, vertexid)
    metrics = prefix_with_subtask(_metrics(found, region) for region in found.regions)
    return select_metrics(metrics, parse_names(names))


@get(f"{_VERTEX}/watermarks", summary="Watermark of each subtask, in milliseconds since 1970")
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


@get(f"{_VERTEX}/subtasks/metrics", summary="Metrics of the subtasks of a vertex, aggregated")
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


@get(f"{_VERTEX}/subtasks/{{subtaskindex}}/metrics", summary="Metrics of one subtask")
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
