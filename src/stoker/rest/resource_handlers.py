"""Requests about what a job needs."""

from typing import Any

from litestar import Request, get, put

from stoker.api.shape import Nothing
from stoker.api.vertices import ParallelismBounds, VertexRequirements
from stoker.core.errors import InvalidInput, Unavailable
from stoker.core.ids import vertex_hex_id
from stoker.core.results import JobDetails
from stoker.rest.json_body import read_body
from stoker.rest.parameters import JobIdText, Services, parse_job_id

NOT_WHILE_IT_RUNS = (
    "what a job needs cannot be changed while it runs; for a streaming job stoker rescale JOB "
    "PARTITIONS stops it with a savepoint, divides its state anew and starts it again"
)


@get("/jobs/{jobid:str}/resource-requirements", summary="How many slots each vertex is run in")
async def requirements(jobid: JobIdText, services: Services) -> dict[str, VertexRequirements]:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    return _requirements(await dispatcher.job_details(job_id))


def _requirements(job: JobDetails) -> dict[str, VertexRequirements]:
    found = {}
    for vertex in job.plan:
        slots = max(1, sum(vertex.name in region.vertices for region in job.regions))
        bounds = ParallelismBounds(lower_bound=1, upper_bound=slots)
        found[vertex_hex_id(job.job_id, vertex.name)] = VertexRequirements(parallelism=bounds)
    return found


@put("/jobs/{jobid:str}/resource-requirements", summary="Change what a job needs")
async def change_requirements(
    jobid: JobIdText, request: Request[Any, Any, Any], services: Services
) -> Nothing:
    """Accepted when nothing would change, which is what a repeated request asks for."""
    job_id = parse_job_id(jobid)
    wanted = await read_body(request, dict[str, VertexRequirements], dict)
    dispatcher = await services.dispatcher()
    known = _requirements(await dispatcher.job_details(job_id))
    unknown = wanted.keys() - known.keys()
    if unknown or not wanted:
        raise InvalidInput(
            "name every vertex of the job by its id, with parallelism {lowerBound, upperBound}"
        )
    for vertex, each in wanted.items():
        bounds = each.parallelism
        if not 1 <= bounds.lower_bound <= bounds.upper_bound:
            raise InvalidInput(f"vertex {vertex}: 1 <= lowerBound <= upperBound must hold")
    if any(known[vertex] != each for vertex, each in wanted.items()):
        raise Unavailable(NOT_WHILE_IT_RUNS)
    return Nothing()


RESOURCE_HANDLERS = (requirements, change_requirements)
