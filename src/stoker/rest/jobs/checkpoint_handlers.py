"""Requests about the checkpoints of a streaming job.

Spark makes a checkpoint with every batch and takes no order to make one, so triggering a checkpoint
means waiting until each query that still runs has committed its next batch.
"""

import asyncio
from typing import Any

from stoker.api.checkpoints import (
    CheckpointAnswer,
    CheckpointConfig,
    CheckpointStatistics,
    VertexCheckpoint,
)
from stoker.api.operations import OperationAnswer, Triggered
from stoker.core.errors import Conflict, InvalidInput
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.rest.http.asgi import Request
from stoker.rest.http.routing import get, post
from stoker.rest.jobs.checkpoint_views import (
    check_has_checkpoints,
    checkpoint_config,
    checkpoint_statistics,
    checkpoint_with_tasks,
    find_checkpoint,
    has_committed_since,
    last_batches,
    vertex_checkpoint,
)
from stoker.rest.jobs.lookup import find_vertex, load_job
from stoker.rest.openapi.bodies import TRIGGER_ID, json_object
from stoker.rest.requests.operations import OperationKey, choose_trigger_id, parse_trigger_id
from stoker.rest.requests.parameters import (
    JobIdText,
    get_text,
    parse_count,
    parse_job_id,
    parse_vertex_id,
    read_fields,
)
from stoker.rest.services import RestServices
from stoker.security.redaction import without_secrets
from stoker.security.tokens import Permission

CHECKPOINT = "checkpoint"
TYPES = ("CONFIGURED", "FULL", "INCREMENTAL")
_POLL_SECONDS = 0.5


async def _load_job(services: RestServices, jobid: str) -> JobDetails:
    """The job as it may be shown: failures and locations of savepoints may quote secrets."""
    return without_secrets(await load_job(services, jobid))


@get("/jobs/{jobid}/checkpoints", needs=Permission.QUERY, summary="Checkpoints of a streaming job")
async def checkpoints(jobid: JobIdText, services: RestServices) -> CheckpointStatistics:
    return checkpoint_statistics(await _load_job(services, jobid), services.clock())


@get(
    "/jobs/{jobid}/checkpoints/config",
    needs=Permission.QUERY,
    summary="Checkpoint settings of a streaming job",
)
async def checkpoints_config(jobid: JobIdText, services: RestServices) -> CheckpointConfig:
    return checkpoint_config(await load_job(services, jobid), services.savepoints)


@get(
    "/jobs/{jobid}/checkpoints/details/{checkpointid}",
    needs=Permission.QUERY,
    summary="One checkpoint",
)
async def checkpoint_details(
    jobid: JobIdText, checkpointid: str, services: RestServices
) -> CheckpointAnswer:
    number = parse_count(checkpointid, "checkpointid")
    job = await _load_job(services, jobid)
    return checkpoint_with_tasks(job, find_checkpoint(job, number), services.clock())


@get(
    "/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}",
    needs=Permission.QUERY,
    summary="One checkpoint of one vertex",
)
async def checkpoint_subtasks(
    jobid: JobIdText, checkpointid: str, vertexid: str, services: RestServices
) -> VertexCheckpoint:
    number, vertex_id = parse_count(checkpointid, "checkpointid"), parse_vertex_id(vertexid)
    job = await load_job(services, jobid)
    entry = find_checkpoint(job, number)
    return vertex_checkpoint(find_vertex(job, vertex_id), entry, services.clock())


@post(
    "/jobs/{jobid}/checkpoints",
    needs=Permission.CONTROL,
    status=202,
    summary="Wait for the next checkpoint, which Spark makes with the next batch",
    body=json_object(checkpointType={"enum": list(TYPES)}, triggerId=TRIGGER_ID),
)
async def trigger_checkpoint(
    jobid: JobIdText, request: Request, services: RestServices
) -> Triggered:
    job_id = parse_job_id(jobid)
    fields = await read_fields(request)
    kind = get_text(fields, "checkpointType") or "CONFIGURED"
    if kind.upper() not in TYPES:
        raise InvalidInput(f"checkpointType must be one of {', '.join(TYPES)}, found {kind!r}")
    dispatcher = await services.dispatcher()
    job = await dispatcher.job_details(job_id)
    trigger_id = choose_trigger_id(get_text(fields, "triggerId"), services.ids)
    key = OperationKey(kind=CHECKPOINT, trigger_id=trigger_id, job_id=job_id)
    services.operations.trigger(key, lambda: _next_checkpoint(services, job))
    return Triggered(request_id=trigger_id)


async def _next_checkpoint(services: RestServices, job: JobDetails) -> dict[str, Any]:
    check_has_checkpoints(job)
    before = last_batches(job)
    while not has_committed_since(job, before):
        if job.status.globally_terminal:
            raise Conflict(f"job {job.job_id} ended as {job.status} before its next checkpoint")
        await asyncio.sleep(_POLL_SECONDS)
        dispatcher = await services.dispatcher()
        job = await dispatcher.job_details(JobId(job.job_id))
    latest = job.checkpoints.latest_completed
    return {"checkpointId": max(last_batches(job).values()) if latest is None else latest.id}


@get(
    "/jobs/{jobid}/checkpoints/{triggerid}",
    needs=Permission.QUERY,
    summary="Status of a triggered checkpoint",
)
async def checkpoint_status(
    jobid: JobIdText, triggerid: str, services: RestServices
) -> OperationAnswer:
    key = OperationKey(
        kind=CHECKPOINT, trigger_id=parse_trigger_id(triggerid), job_id=parse_job_id(jobid)
    )
    return services.operations.status(key)


CHECKPOINT_HANDLERS = (
    checkpoints,
    checkpoints_config,
    checkpoint_details,
    checkpoint_subtasks,
    trigger_checkpoint,
    checkpoint_status,
)
