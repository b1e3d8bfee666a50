"""Requests about the parallelism of a job, which is the number of its shuffle partitions in Spark.

The state of a streaming job has as many partitions as its shuffles. To change the number, the
job is stopped with a savepoint, its state is repartitioned, and it starts again under another id.
"""

from typing import Annotated, Any

from stoker.api.flink import ParallelismBounds, VertexRequirements
from stoker.api.operations import COMPLETED, OperationAnswer, Triggered, answer_of
from stoker.api.shape import Nothing
from stoker.core.errors import Conflict, InvalidInput, JobAlreadyEnded
from stoker.core.graph import JobType
from stoker.core.ids import vertex_hex_id
from stoker.core.job_options import (
    DEFAULT_PARALLELISM,
    LARGEST_PARALLELISM,
    PARALLELISM_OVERRIDES,
    SHUFFLE_PARTITIONS,
    shuffle_partitions,
)
from stoker.core.replacements import ReplacementKind, ReplacementPhase, ReplacementRequest
from stoker.core.results import JobDetails
from stoker.rest.flink.java_throwable import failure_cause
from stoker.rest.http.asgi import Request, Response
from stoker.rest.http.routing import QueryParameter, get, patch, put
from stoker.rest.jobs.lookup import load_job
from stoker.rest.requests.operations import TriggerId, parse_trigger_id
from stoker.rest.requests.parameters import JobIdText, parse_job_id, read_body
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

SPARK_DEFAULT_PARTITIONS = 200

Parallelism = Annotated[int, QueryParameter(ge=1, le=LARGEST_PARALLELISM)]
Requirements = dict[str, VertexRequirements]


@get(
    "/jobs/{jobid}/resource-requirements",
    needs=Permission.QUERY,
    summary="Parallelism of each vertex",
)
async def requirements(jobid: JobIdText, services: RestServices) -> Requirements:
    return _requirements(await load_job(services, jobid))


def _requirements(job: JobDetails) -> Requirements:
    found = {}
    for vertex in job.plan:
        regions = [each.vertices for each in job.regions if vertex.name in each.vertices]
        parts = max((_partitions(job, each) for each in regions), default=_partitions(job, ()))
        bounds = ParallelismBounds(lower_bound=1, upper_bound=parts)
        found[vertex_hex_id(job.job_id, vertex.name)] = VertexRequirements(parallelism=bounds)
    return found


def _partitions(job: JobDetails, vertices: tuple[str, ...]) -> int:
    override = shuffle_partitions(job.configuration, vertices)
    configured = job.configuration.get(SHUFFLE_PARTITIONS, "")
    default = int(configured) if configured.isdecimal() else SPARK_DEFAULT_PARTITIONS
    return override or default


@put(
    "/jobs/{jobid}/resource-requirements",
    needs=Permission.CONTROL,
    summary="Change the parallelism of a streaming job",
    answer=Nothing,
    body=Requirements,
)
async def change_requirements(
    jobid: JobIdText, request: Request, services: RestServices
) -> Nothing | Response:
    """A request that changes nothing is accepted: it may be a repeated one."""
    wanted: Requirements = await read_body(request, Requirements, dict)
    job = await load_job(services, jobid)
    parts = _wanted_partitions(wanted, _requirements(job))
    if parts is None:
        return Nothing()
    trigger_id = await _rescale(services, job, parts)
    location = f"/jobs/{job.job_id}/replacements/{trigger_id}"
    return Response(b"{}", headers=[("Location", location)])


def _wanted_partitions(wanted: Requirements, known: Requirements) -> int | None:
    """Number of partitions that the client wants; None when the job has it already."""
    if wanted.keys() - known.keys() or not wanted:
        raise InvalidInput(
            "name the vertices of the job by their ids, with parallelism {lowerBound, upperBound}; "
            "GET on the same path shows them"
        )
    for vertex, each in wanted.items():
        bounds = each.parallelism
        if not 1 <= bounds.lower_bound <= bounds.upper_bound <= LARGEST_PARALLELISM:
            raise InvalidInput(
                f"vertex {vertex}: 1 <= lowerBound <= upperBound <= {LARGEST_PARALLELISM} must hold"
            )
    parts = {each.parallelism.upper_bound for each in wanted.values()}
    if all(
        each.parallelism.upper_bound == known[key].parallelism.upper_bound
        for key, each in wanted.items()
    ):
        return None
    if len(parts) > 1:
        raise InvalidInput(
            f"upperBound must be one number for all vertices, found {sorted(parts)}: Spark uses "
            "one number for all shuffles of a job"
        )
    return parts.pop()


async def _rescale(services: RestServices, job: JobDetails, parts: int) -> TriggerId:
    _check_can_change(job)
    trigger_id = TriggerId(services.ids.nonce())
    dispatcher = await services.dispatcher()
    await dispatcher.trigger_replacement(
        ReplacementRequest(
            job_id=job.job_id,
            trigger_id=trigger_id,
            kind=ReplacementKind.RESCALE,
            partitions=parts,
            window_seconds=0.0,
        )
    )
    return trigger_id


def _check_can_change(job: JobDetails) -> None:
    if job.status.globally_terminal:
        raise JobAlreadyEnded(job.job_id, job.status)
    if job.job_type is JobType.BATCH:
        raise Conflict(
            f"job {job.job_id} is a batch job, which Spark has already planned; cancel it and "
            f"submit it with another {SHUFFLE_PARTITIONS}"
        )
    if any(shuffle_partitions(job.configuration, each.vertices) for each in job.regions):
        raise Conflict(
            f"{PARALLELISM_OVERRIDES} or {DEFAULT_PARALLELISM} in the configuration of job "
            f"{job.job_id} sets its parallelism; change it there, with stoker upgrade"
        )


@patch(
    "/jobs/{jobid}/rescaling",
    needs=Permission.CONTROL,
    summary="Change the parallelism of a streaming job",
)
async def rescale(jobid: JobIdText, services: RestServices, parallelism: Parallelism) -> Triggered:
    job = await load_job(services, jobid)
    return Triggered(request_id=await _rescale(services, job, parallelism))


@get("/jobs/{jobid}/rescaling/{triggerid}", needs=Permission.QUERY, summary="Status of a rescale")
async def rescale_status(
    jobid: JobIdText, triggerid: str, services: RestServices
) -> OperationAnswer:
    job_id, trigger_id = parse_job_id(jobid), parse_trigger_id(triggerid)
    dispatcher = await services.dispatcher()
    plan = await dispatcher.replacement_status(job_id, trigger_id, None, 0.0)
    status = answer_of(plan).status
    if status.id != COMPLETED:
        return OperationAnswer(status=status)
    operation: dict[str, Any] = {}
    if plan.phase is not ReplacementPhase.DONE:
        cause = failure_cause("RescaleFailed", plan.reason, f"RescaleFailed: {plan.reason}")
        operation = {"failure-cause": cause}
    return OperationAnswer(status=status, operation=operation)


RESOURCE_HANDLERS = (requirements, change_requirements, rescale, rescale_status)
