"""Requests about accumulators: counters that a Flink program keeps while it runs.

Spark has no accumulators of this kind. The nearest thing is what Spark counts for each region, rows
and bytes read and written, so these numbers appear under the form of Flink's accumulators.
"""

from collections.abc import Iterable
from typing import Annotated

from stoker.api.flink import (
    Accumulator,
    AttemptAccumulators,
    JobAccumulators,
    SubtaskAccumulators,
    SubtasksAccumulators,
    VertexAccumulators,
)
from stoker.core.results import AttemptDetails
from stoker.rest.http.routing import QueryParameter, get
from stoker.rest.jobs.lookup import load_job, load_vertex
from stoker.rest.jobs.subtask_views import UNASSIGNED
from stoker.rest.requests.parameters import JobIdText, VertexIdText, parse_count
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"
WithSerialized = Annotated[bool, QueryParameter(name="includeSerializedValue")]


@get(
    "/jobs/{jobid}/accumulators",
    needs=Permission.QUERY,
    summary="Rows and bytes that a job has read and written",
)
async def job_accumulators(
    jobid: JobIdText, services: RestServices, include_serialized_value: WithSerialized = False
) -> JobAccumulators:
    job = await load_job(services, jobid)
    counts = accumulators_of(region.current for region in job.regions)
    return JobAccumulators(user_task_accumulators=counts)


@get(
    f"{_VERTEX}/accumulators",
    needs=Permission.QUERY,
    summary="Rows and bytes that a vertex has read and written",
)
async def vertex_accumulators(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> VertexAccumulators:
    found = await load_vertex(services, jobid, vertexid)
    attempts = (region.current for region in found.regions)
    return VertexAccumulators(id=found.id, user_accumulators=accumulators_of(attempts))


@get(
    f"{_VERTEX}/subtasks/accumulators",
    needs=Permission.QUERY,
    summary="Rows and bytes that each subtask has read and written",
)
async def subtasks_accumulators(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> SubtasksAccumulators:
    found = await load_vertex(services, jobid, vertexid)
    return SubtasksAccumulators(
        id=found.id,
        parallelism=max(1, len(found.regions)),
        subtasks=[
            SubtaskAccumulators(
                subtask=index,
                attempt=region.current.number,
                endpoint=region.current.task_executor or UNASSIGNED,
                user_accumulators=accumulators_of([region.current]),
            )
            for index, region in enumerate(found.regions)
        ],
    )


@get(
    f"{_VERTEX}/subtasks/{{subtaskindex}}/attempts/{{attempt}}/accumulators",
    needs=Permission.QUERY,
    summary="Rows and bytes that one attempt has read and written",
)
async def attempt_accumulators(
    jobid: JobIdText,
    vertexid: VertexIdText,
    subtaskindex: str,
    attempt: str,
    services: RestServices,
) -> AttemptAccumulators:
    index, number = parse_count(subtaskindex, "subtaskindex"), parse_count(attempt, "attempt")
    details = (await load_vertex(services, jobid, vertexid)).attempt(index, number)
    return AttemptAccumulators(
        subtask=index,
        attempt=number,
        id=details.attempt,
        user_accumulators=accumulators_of([details]),
    )


def accumulators_of(attempts: Iterable[AttemptDetails]) -> list[Accumulator]:
    totals: dict[str, int] = {}
    for attempt in attempts:
        progress = attempt.progress
        counted = {
            "rows_read": progress.rows_read,
            "rows_written": progress.rows_written,
            "bytes_read": progress.bytes_read,
            "bytes_written": progress.bytes_written,
        }
        for name, value in counted.items():
            if value is not None:
                totals[name] = totals.get(name, 0) + value
    return [
        Accumulator(name=name, type="LongCounter", value=str(value))
        for name, value in totals.items()
    ]


ACCUMULATOR_HANDLERS = (
    job_accumulators,
    vertex_accumulators,
    subtasks_accumulators,
    attempt_accumulators,
)
