"""Requests about the vertices of a job: each handler decodes, asks the dispatcher, and encodes."""

from stoker.api.vertices import SubtaskAttempt, SubtaskTimes, VertexAnswer, VertexTaskManagers
from stoker.rest.http.routing import get
from stoker.rest.jobs import subtask_views as views
from stoker.rest.jobs.lookup import load_vertex
from stoker.rest.requests.parameters import JobIdText, VertexIdText, parse_count
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"


@get(_VERTEX, needs=Permission.QUERY, summary="A vertex with its subtasks")
async def vertex(jobid: JobIdText, vertexid: VertexIdText, services: RestServices) -> VertexAnswer:
    return views.vertex_answer(await load_vertex(services, jobid, vertexid), services.clock())


@get(
    f"{_VERTEX}/subtasktimes",
    needs=Permission.QUERY,
    summary="When each subtask entered each state",
)
async def subtask_times(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> SubtaskTimes:
    return views.subtask_times(await load_vertex(services, jobid, vertexid), services.clock())


@get(
    f"{_VERTEX}/taskmanagers", needs=Permission.QUERY, summary="Task executors that run the vertex"
)
async def vertex_task_managers(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> VertexTaskManagers:
    found = await load_vertex(services, jobid, vertexid)
    return views.vertex_task_managers(found, services.clock())


@get(
    f"{_VERTEX}/subtasks/{{subtaskindex}}",
    needs=Permission.QUERY,
    summary="The current attempt of a subtask",
)
async def subtask(
    jobid: JobIdText, vertexid: VertexIdText, subtaskindex: str, services: RestServices
) -> SubtaskAttempt:
    index = parse_count(subtaskindex, "subtaskindex")
    found = await load_vertex(services, jobid, vertexid)
    return views.subtask_attempt(found, index, found.region(index).current, services.clock())


@get(
    f"{_VERTEX}/subtasks/{{subtaskindex}}/attempts/{{attempt}}",
    needs=Permission.QUERY,
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
    found = await load_vertex(services, jobid, vertexid)
    return views.subtask_attempt(found, index, found.attempt(index, number), services.clock())


VERTEX_HANDLERS = (vertex, subtask_times, vertex_task_managers, subtask, attempt)
