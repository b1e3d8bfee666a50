"""Requests about savepoints: start an operation, or ask for its status.

Flink's clients send parameters in the JSON body; they are accepted in the query as well.
"""

from collections.abc import Mapping
from typing import Any

from stoker.api.operations import OperationAnswer, Savepoints, Triggered
from stoker.core.checkpoints import SavepointRequest, SavepointSummary
from stoker.core.errors import InvalidInput, NotFound, SavepointFailed
from stoker.core.ids import JobId
from stoker.gateways.dispatcher import SavepointStatus
from stoker.rest.http.asgi import Request
from stoker.rest.http.routing import get, post
from stoker.rest.jobs.lookup import load_secret_values
from stoker.rest.openapi.bodies import FLAG, TEXT, TRIGGER_ID, json_object
from stoker.rest.requests.operations import (
    OperationKey,
    TriggerId,
    choose_trigger_id,
    parse_trigger_id,
)
from stoker.rest.requests.parameters import (
    JobIdText,
    get_flag,
    get_seconds,
    get_text,
    parse_job_id,
    read_fields,
)
from stoker.rest.services import RestServices
from stoker.savepoints.access import SavepointAccess
from stoker.savepoints.locations import locate, read_manifest
from stoker.savepoints.manifest import SavepointView
from stoker.security.redaction import redact_text
from stoker.security.tokens import Permission, allows

SAVEPOINT = "savepoint"
DISPOSAL = "savepoint disposal"
_POLL_SECONDS = 5.0


@post(
    "/jobs/{jobid}/savepoints",
    needs=Permission.CONTROL,
    status=202,
    summary="Take a savepoint of a job",
    body=json_object(target_directory=TEXT, cancel_job=FLAG, triggerId=TRIGGER_ID),
)
async def trigger_savepoint(
    jobid: JobIdText, request: Request, services: RestServices
) -> Triggered:
    fields = await read_fields(request)
    wanted = SavepointRequest(
        directory=get_text(fields, "target-directory"), cancel=get_flag(fields, "cancel-job")
    )
    return await _trigger(parse_job_id(jobid), wanted, fields, services)


@post(
    "/jobs/{jobid}/stop",
    needs=Permission.CONTROL,
    status=202,
    summary="Stop a job at batch boundaries and take a savepoint of its end state",
    body=json_object(targetDirectory=TEXT, drain=FLAG, triggerId=TRIGGER_ID),
)
async def stop_with_savepoint(
    jobid: JobIdText, request: Request, services: RestServices
) -> Triggered:
    fields = await read_fields(request)
    if get_flag(fields, "drain"):
        raise InvalidInput(
            "drain is not possible: Spark cannot close all windows at once; leave drain out"
        )
    directory = get_text(fields, "targetDirectory") or get_text(fields, "target-directory")
    limit = get_seconds(fields, "limit-seconds")
    if limit == 0:
        raise InvalidInput("limit-seconds must be more than 0")
    wanted = SavepointRequest(directory=directory, stop=True, limit_seconds=limit)
    return await _trigger(parse_job_id(jobid), wanted, fields, services)


@get(
    "/jobs/{jobid}/savepoints/{triggerid}", needs=Permission.QUERY, summary="Status of a savepoint"
)
async def savepoint_status(
    jobid: JobIdText, triggerid: str, services: RestServices
) -> OperationAnswer:
    key = OperationKey(
        kind=SAVEPOINT, trigger_id=parse_trigger_id(triggerid), job_id=parse_job_id(jobid)
    )
    return services.operations.status(key)


@get(
    "/savepoints",
    needs=Permission.QUERY,
    summary="Savepoints in a directory that the caller may use, newest first",
)
async def list_savepoints(
    request: Request, services: RestServices, directory: str | None = None
) -> Savepoints:
    if directory is not None and not _may_see_all(request):
        services.places.check_configured(directory)
    dispatcher = await services.dispatcher()
    return _usable(await dispatcher.savepoints(directory), request, services)


@get(
    "/retained-checkpoints",
    needs=Permission.QUERY,
    summary="Retained checkpoints of ended jobs that the caller may use, newest first",
)
async def list_retained_checkpoints(request: Request, services: RestServices) -> Savepoints:
    dispatcher = await services.dispatcher()
    return _usable(await dispatcher.retained_checkpoints(), request, services)


@get(
    "/savepoints/show",
    needs=Permission.QUERY,
    summary="Content of a savepoint: queries, batches, source positions and files",
)
async def show_savepoint(request: Request, services: RestServices, path: str) -> SavepointView:
    places = services.places
    location = locate(path, places.open if _may_see_all(request) else places.open_configured)
    manifest = await read_manifest(location)
    _access(request, services).check(location.url, manifest.owner)
    return SavepointView(path=location.url, size_bytes=manifest.size, manifest=manifest)


@post(
    "/savepoint-disposal",
    needs=Permission.CONTROL,
    status=200,
    summary="Dispose of a savepoint",
    body=json_object(savepoint_path=TEXT, triggerId=TRIGGER_ID),
)
async def dispose_savepoint(request: Request, services: RestServices) -> Triggered:
    fields = await read_fields(request)
    path = get_text(fields, "savepoint-path")
    if path is None:
        raise InvalidInput("savepoint-path is missing: it names the savepoint to dispose of")
    if not _may_see_all(request):
        services.places.check_configured(path)
    trigger_id = choose_trigger_id(get_text(fields, "triggerId"), services.ids)
    rights = request.caller.rights

    async def work() -> dict[str, Any]:
        dispatcher = await services.dispatcher()
        await dispatcher.dispose_savepoint(path, rights)
        return {}

    services.operations.trigger(OperationKey(kind=DISPOSAL, trigger_id=trigger_id), work)
    return Triggered(request_id=trigger_id)


@get(
    "/savepoint-disposal/{triggerid}",
    needs=Permission.QUERY,
    summary="Status of the disposal of a savepoint",
)
async def disposal_status(triggerid: str, services: RestServices) -> OperationAnswer:
    key = OperationKey(kind=DISPOSAL, trigger_id=parse_trigger_id(triggerid))
    return services.operations.status(key)


def _access(request: Request, services: RestServices) -> SavepointAccess:
    return SavepointAccess(
        owner=request.caller.only_own, without_owner=services.savepoints.use_without_owner
    )


def _usable(found: list[SavepointSummary], request: Request, services: RestServices) -> Savepoints:
    access = _access(request, services)
    return Savepoints(savepoints=[each for each in found if access.allows(each.owner)])


def _may_see_all(request: Request) -> bool:
    """Whether the caller may look at any place that this master reaches."""
    return allows(request.caller.role, Permission.OPERATE)


async def _trigger(
    job_id: JobId, wanted: SavepointRequest, fields: Mapping[str, Any], services: RestServices
) -> Triggered:
    trigger_id = choose_trigger_id(get_text(fields, "triggerId"), services.ids)
    key = OperationKey(kind=SAVEPOINT, trigger_id=trigger_id, job_id=job_id)
    # Ask the dispatcher first: a request that it refuses leaves no operation behind.
    dispatcher = await services.dispatcher()
    await dispatcher.trigger_savepoint(job_id, trigger_id, wanted)

    async def work() -> dict[str, Any]:
        return {"location": await _wait_for_location(services, job_id, trigger_id)}

    services.operations.trigger(key, work)
    return Triggered(request_id=trigger_id)


async def _wait_for_location(services: RestServices, job_id: JobId, trigger_id: TriggerId) -> str:
    """Wait until the savepoint is done. Raise SavepointFailed if the master taking it was lost."""
    status = SavepointStatus(done=False)
    while not status.done:
        dispatcher = await services.dispatcher()
        try:
            status = await dispatcher.savepoint_status(job_id, trigger_id, _POLL_SECONDS)
        except NotFound:
            raise SavepointFailed(
                "the master that took the savepoint was lost before it was done; if it was "
                "completed, stoker savepoint list shows it"
            ) from None
    if status.taken is None:
        secrets = await load_secret_values(dispatcher, job_id)
        raise SavepointFailed(redact_text(status.message, secrets), error=status.error)
    return status.taken.path


SAVEPOINT_HANDLERS = (
    trigger_savepoint,
    stop_with_savepoint,
    savepoint_status,
    list_savepoints,
    list_retained_checkpoints,
    show_savepoint,
    dispose_savepoint,
    disposal_status,
)
