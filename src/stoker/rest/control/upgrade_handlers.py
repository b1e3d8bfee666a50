"""Requests to replace a running job by another version, and to follow a replacement.

Other triggered operations end with the master that started them. A replacement is recorded in the
coordinator, so any later leader continues it and can report on it.
"""

import msgspec

from stoker.api.operations import ReplacementAnswer, Triggered, answer_of
from stoker.core.errors import InvalidInput
from stoker.core.replacements import ReplacementKind, ReplacementPhase, ReplacementRequest
from stoker.rest.http.asgi import Request
from stoker.rest.http.routing import get, post
from stoker.rest.jobs.lookup import load_secret_values
from stoker.rest.openapi.bodies import TEXT, TRIGGER_ID, WHOLE_NUMBER, json_object, submission
from stoker.rest.requests.operations import choose_trigger_id, parse_trigger_id
from stoker.rest.requests.parameters import (
    JobIdText,
    get_flag,
    get_seconds,
    get_text,
    parse_count,
    parse_job_id,
    read_fields,
)
from stoker.rest.requests.submission import (
    decode_graph,
    drain_after_error,
    store_files,
)
from stoker.rest.requests.uploads import receive_upload
from stoker.rest.services import RestServices
from stoker.security.redaction import redact_text
from stoker.security.tokens import Permission

_MAX_WAIT_SECONDS = 20.0
"""Longest time for which a status request is held open."""
_TRIAL_SECONDS = 30.0
"""Default trial window: if the new version fails in it, the old one starts again."""


@post(
    "/jobs/{jobid}/upgrade",
    needs=Permission.CONTROL,
    status=202,
    summary="Replace a streaming job by a new version, and roll back if that fails",
    body=submission(),
)
async def upgrade(jobid: JobIdText, request: Request, services: RestServices) -> Triggered:
    """The body is that of a submission; the other parameters are in the query."""
    async with drain_after_error(request) as chunks:
        job_id = parse_job_id(jobid)
        query = request.query
        trigger_id = choose_trigger_id(get_text(query, "triggerId"), services.ids)
        window = get_seconds(query, "window-seconds")
        # Without a leader it would be pointless to receive files.
        dispatcher = await services.dispatcher()
        async with receive_upload(
            chunks,
            request.headers.get("content-type", ""),
            request.content_length,
            services.options,
        ) as upload:
            graph = decode_graph(upload.graph, None)
            graph = await store_files(graph, upload, services.blobs)
        await dispatcher.trigger_replacement(
            ReplacementRequest(
                job_id=job_id,
                trigger_id=trigger_id,
                kind=ReplacementKind.UPGRADE,
                graph=graph,
                directory=get_text(query, "target-directory"),
                allow_non_restored_state=get_flag(query, "allowNonRestoredState"),
                window_seconds=_TRIAL_SECONDS if window is None else window,
            ),
            request.caller.rights,
        )
    return Triggered(request_id=trigger_id)


@post(
    "/jobs/{jobid}/rescale",
    needs=Permission.CONTROL,
    status=202,
    summary="Restart a streaming job with another number of state partitions",
    body=json_object(partitions=WHOLE_NUMBER, target_directory=TEXT, triggerId=TRIGGER_ID),
)
async def rescale(jobid: JobIdText, request: Request, services: RestServices) -> Triggered:
    job_id = parse_job_id(jobid)
    fields = await read_fields(request)
    trigger_id = choose_trigger_id(get_text(fields, "triggerId"), services.ids)
    dispatcher = await services.dispatcher()
    await dispatcher.trigger_replacement(
        ReplacementRequest(
            job_id=job_id,
            trigger_id=trigger_id,
            kind=ReplacementKind.RESCALE,
            partitions=parse_count(str(fields.get("partitions", "")), "partitions"),
            directory=get_text(fields, "target-directory"),
            window_seconds=get_seconds(fields, "window-seconds") or 0.0,
        )
    )
    return Triggered(request_id=trigger_id)


@get(
    "/jobs/{jobid}/replacements/{triggerid}",
    needs=Permission.QUERY,
    summary="Progress of an upgrade or a rescale, and which job runs now",
)
async def replacement(
    jobid: JobIdText,
    triggerid: str,
    services: RestServices,
    known: str | None = None,
    wait: str | None = None,
) -> ReplacementAnswer:
    """With `wait`, hold the request for up to that many seconds while the phase is `known`."""
    job_id, trigger_id = parse_job_id(jobid), parse_trigger_id(triggerid)
    phase = None if known is None else _phase(known)
    seconds = min(get_seconds({"wait": wait}, "wait") or 0.0, _MAX_WAIT_SECONDS)
    dispatcher = await services.dispatcher()
    state = await dispatcher.replacement_status(job_id, trigger_id, phase, seconds)
    if state.reason:
        # It may quote the failure of the new version.
        secrets = await load_secret_values(dispatcher, state.new_id)
        state = msgspec.structs.replace(state, reason=redact_text(state.reason, secrets))
    return answer_of(state)


def _phase(text: str) -> ReplacementPhase:
    try:
        return ReplacementPhase(text.upper())
    except ValueError:
        phases = ", ".join(ReplacementPhase)
        raise InvalidInput(f"known must be one of {phases}, found {text!r}") from None


UPGRADE_HANDLERS = (upgrade, rescale, replacement)
