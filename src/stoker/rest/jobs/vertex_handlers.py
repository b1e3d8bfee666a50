"""Requests about the vertices of a job: each decodes, asks the dispatcher once, and encodes."""

from typing import Annotated

from stoker.api.metrics import AggregatedMetric, Metric
from stoker.api.vertices import (
    AttemptAccumulators,
    BackPressure,
    FlameGraph,
    SubtaskAttempt,
    SubtasksAccumulators,
    SubtaskTimes,
    VertexAccumulators,
    VertexAnswer,
    VertexTaskManagers,
)
from stoker.core.results import RegionDetails
from stoker.rest.http.routing import QueryParameter, get
from stoker.rest.jobs import subtask_views as views
from stoker.rest.jobs.aggregation import (
    aggregated,
    parse_indices,
    parse_modes,
    parse_names,
    selected,
)
from stoker.rest.jobs.metrics import numbered, subtask_figures, watermark_of
from stoker.rest.jobs.vertex_views import reads_alone
from stoker.rest.requests.parameters import (
    JobIdText,
    VertexIdText,
    parse_count,
    parse_job_id,
    parse_vertex_id,
)
from stoker.rest.services import RestServices

_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"
Names = Annotated[str | None, QueryParameter(name="get", description="names of metrics")]


async def _find(services: RestServices, jobid: str, vertexid: str) -> views.FoundVertex:
    job_id, vertex_id = parse_job_id(jobid), parse_vertex_id(vertexid)
    dispatcher = await services.dispatcher()
    return views.find_vertex(await dispatcher.job_details(job_id), vertex_id)


@get(_VERTEX, summary="A vertex with its subtasks")
async def vertex(jobid: JobIdText, vertexid: VertexIdText, services: RestServices) -> VertexAnswer:
    return views.vertex_answer(await _find(services, jobid, vertexid), services.clock())


@get(f"{_VERTEX}/subtasktimes", summary="When each subtask entered which state")
async def subtask_times(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> SubtaskTimes:
    return views.subtask_times(await _find(services, jobid, vertexid), services.clock())


@get(f"{_VERTEX}/taskmanagers", summary="Task executors that run the vertex")
async def vertex_task_managers(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> VertexTaskManagers:
    return views.vertex_task_managers(await _find(services, jobid, vertexid), services.clock())


@get(f"{_VERTEX}/accumulators", summary="Counts of the vertex")
async def vertex_accumulators(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> VertexAccumulators:
    return views.vertex_accumulators(await _find(services, jobid, vertexid))


@get(f"{_VERTEX}/subtasks/accumulators", summary="Counts of each subtask")
async def subtasks_accumulators(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> SubtasksAccumulators:
    return views.subtasks_accumulators(await _find(services, jobid, vertexid))


@get(f"{_VERTEX}/backpressure", summary="Back pressure, which Spark has not")
async def back_pressure(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> BackPressure:
    await _find(services, jobid, vertexid)
    return BackPressure()


@get(f"{_VERTEX}/flamegraph", summary="Samples of operators, which are not taken")
async def flame_graph(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> FlameGraph:
    await _find(services, jobid, vertexid)
    return FlameGraph()


@get(f"{_VERTEX}/subtasks/{{subtaskindex}}", summary="The current attempt of a subtask")
async def subtask(
    jobid: JobIdText, vertexid: VertexIdText, subtaskindex: str, services: RestServices
) -> SubtaskAttempt:
    index = parse_count(subtaskindex, "subtaskindex")
    found = await _find(services, jobid, vertexid)
    return views.subtask_attempt(found, index, found.region(index).current, services.clock())


@get(
    f"{_VERTEX}/subtasks/{{subtaskindex}}/attempts/{{attempt}}",
    summary="One attempt of a subtask",
)
async def attempt(
    jobid: JobIdText,
    vertexid: VertexIdText,
    subtaskindex: str,
    attempt: str,
    services: RestServices,
) -> SubtaskAttempt:
    index, number = parse_count(subtaskindex, "subtaskindex"), parse_count(attempt, "attempt")
    found = await _find(services, jobid, vertexid)
    return views.subtask_attempt(found, index, found.attempt(index, number), services.clock())


@get(
    f"{_VERTEX}/subtasks/{{subtaskindex}}/attempts/{{attempt}}/accumulators",
    summary="Counts of one attempt",
)
async def attempt_accumulators(
    jobid: JobIdText,
    vertexid: VertexIdText,
    subtaskindex: str,
    attempt: str,
    services: RestServices,
) -> AttemptAccumulators:
    index, number = parse_count(subtaskindex, "subtaskindex"), parse_count(attempt, "attempt")
    return views.attempt_accumulators(await _find(services, jobid, vertexid), index, number)


# Figures


def _figures(found: views.FoundVertex, region: RegionDetails) -> dict[str, str]:
    name = found.vertex.name
    return subtask_figures(region, name, reads=reads_alone(found.job, region, name))


@get(f"{_VERTEX}/metrics", summary="Figures of the vertex, of all its subtasks")
async def vertex_metrics(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices, names: Names = None
) -> list[Metric]:
    found = await _find(services, jobid, vertexid)
    figures = numbered(_figures(found, region) for region in found.regions)
    return selected(figures, parse_names(names))


@get(f"{_VERTEX}/jm-operator-metrics", summary="Figures of coordinators, which Spark has not")
async def operator_metrics(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices, names: Names = None
) -> list[Metric]:
    await _find(services, jobid, vertexid)
    return selected({}, parse_names(names))


@get(f"{_VERTEX}/watermarks", summary="How far event time has come, in milliseconds since 1970")
async def watermarks(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> list[Metric]:
    found = await _find(services, jobid, vertexid)
    known = [watermark_of(region.current.progress) for region in found.regions]
    return [
        Metric(id=f"{index}.currentInputWatermark", value=str(value))
        for index, value in enumerate(known)
        if value is not None
    ]


@get(f"{_VERTEX}/subtasks/metrics", summary="Figures of subtasks, joined")
async def subtasks_metrics(
    jobid: JobIdText,
    vertexid: VertexIdText,
    services: RestServices,
    names: Names = None,
    agg: str | None = None,
    subtasks: str | None = None,
) -> list[AggregatedMetric]:
    chosen, modes = parse_indices(subtasks), parse_modes(agg)
    found = await _find(services, jobid, vertexid)
    figures = [
        _figures(found, region)
        for index, region in enumerate(found.regions)
        if chosen is None or index in chosen
    ]
    return aggregated(figures, parse_names(names), modes)


@get(f"{_VERTEX}/subtasks/{{subtaskindex}}/metrics", summary="Figures of one subtask")
async def subtask_metrics(
    jobid: JobIdText,
    vertexid: VertexIdText,
    subtaskindex: str,
    services: RestServices,
    names: Names = None,
) -> list[Metric]:
    index = parse_count(subtaskindex, "subtaskindex")
    found = await _find(services, jobid, vertexid)
    return selected(_figures(found, found.region(index)), parse_names(names))


VERTEX_HANDLERS = (
    vertex,
    subtask_times,
    vertex_task_managers,
    vertex_accumulators,
    subtasks_accumulators,
    back_pressure,
    flame_graph,
    subtask,
    attempt,
    attempt_accumulators,
    vertex_metrics,
    operator_metrics,
    watermarks,
    subtasks_metrics,
    subtask_metrics,
)
