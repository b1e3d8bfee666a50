"""Requests about uploaded programs, which Flink's API calls jars.

Flink's clients send the arguments of a program in the query, in the body, or in both; the query
wins.
"""

import shlex
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from stoker.api.jobs import PlanAnswer
from stoker.api.programs import (
    ApplicationStarted,
    ProgramAnswer,
    ProgramEntry,
    ProgramRun,
    ProgramsAnswer,
    ProgramStarted,
    ProgramUploaded,
)
from stoker.api.shape import Nothing
from stoker.core.errors import InvalidInput, NotFound, Unavailable
from stoker.core.graph import Restore
from stoker.core.ids import JobId
from stoker.core.job_options import LARGEST_PARALLELISM
from stoker.rest.http.access import Requester
from stoker.rest.http.asgi import Request
from stoker.rest.http.routing import QueryParameter, Route, delete, get, post, route
from stoker.rest.jobs.plan_views import plan_of_graph
from stoker.rest.openapi.bodies import FILE, multipart
from stoker.rest.programs.runs import ProgramArguments, compile_program
from stoker.rest.programs.store import ProgramStore, StoredProgram, program_name
from stoker.rest.requests.parameters import parse_hex_id, read_body
from stoker.rest.requests.submission import drain_after_error
from stoker.rest.requests.uploads import receive_file
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

_PROGRAM = "/jars/{jarid}"
EntryClass = Annotated[str | None, QueryParameter(name="entry-class")]
ProgramArg = Annotated[str | None, QueryParameter(name="programArg")]
SavepointPath = Annotated[str | None, QueryParameter(name="savepointPath")]
AllowNonRestored = Annotated[bool | None, QueryParameter(name="allowNonRestoredState")]
Parallelism = int | None


def _programs(services: RestServices) -> ProgramStore:
    if services.programs is None:
        raise Unavailable("programs cannot be uploaded to this master: web.submit.enable is false")
    return services.programs


@get("/jars", needs=Permission.READ, summary="Uploaded programs")
async def list_programs(services: RestServices) -> ProgramsAnswer:
    stored = await _programs(services).all()
    return ProgramsAnswer(
        address=services.leader_url() or "", files=[_view(each) for each in stored]
    )


def _view(program: StoredProgram) -> ProgramAnswer:
    return ProgramAnswer(
        id=program.id,
        name=program.name,
        uploaded=program.uploaded,
        entry=[ProgramEntry(name=program.name.rpartition(".")[0])],
    )


@post(
    "/jars/upload",
    needs=Permission.SUBMIT,
    status=200,
    summary="Upload a program",
    body=multipart("jarfile", jarfile=FILE),
)
async def upload_program(request: Request, services: RestServices) -> ProgramUploaded:
    programs = _programs(services)
    async with (
        drain_after_error(request) as chunks,
        receive_file(
            chunks,
            request.headers.get("content-type", ""),
            request.content_length,
            services.options,
        ) as file,
    ):
        name = program_name(file.label)
        await services.blobs.check_room(file.size)
        limit = services.options.programs_size_limit
        program = await programs.add(name, file.sha256, file.size, file.path, limit=limit)
    return ProgramUploaded(filename=programs.storage.url(f"programs/{program.id}"))


@delete(
    _PROGRAM,
    needs=Permission.OPERATE,
    status=200,
    summary="Delete a program; jobs that it started keep running",
)
async def delete_program(jarid: str, services: RestServices) -> Nothing:
    try:
        await _programs(services).delete(jarid)
    except NotFound as error:
        # Flink answers with 400, not with 404, when there is no such program.
        raise InvalidInput(error.message) from error
    return Nothing()


async def _arguments(request: Request, services: RestServices, **query: Any) -> ProgramArguments:
    body = await read_body(request, ProgramRun, ProgramRun)
    given = {key: value for key, value in query.items() if value is not None}
    body = msgspec.structs.replace(body, **given)
    arguments = tuple(body.program_args_list or ())
    if not arguments and body.program_args:
        arguments = _split_arguments(body.program_args)
    parallelism = body.parallelism
    if parallelism is not None and not 1 <= parallelism <= LARGEST_PARALLELISM:
        raise InvalidInput(
            f"parallelism must be from 1 to {LARGEST_PARALLELISM}, found {parallelism}"
        )
    return ProgramArguments(
        entry=body.entry_class,
        arguments=arguments,
        parallelism=parallelism,
        configuration=body.flink_configuration or {},
        job_id=_parse_chosen_job_id(body.job_id or body.application_id),
        restore=_restore(body),
        demands={
            "queue": body.queue,
            "priority": body.priority,
            "slots": body.slots,
            "resources": body.resources,
        },
    )


def _restore(body: ProgramRun) -> Restore | None:
    if not body.savepoint_path:
        return None
    return Restore(
        path=body.savepoint_path,
        allow_non_restored_state=bool(body.allow_non_restored_state),
    )


def _split_arguments(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InvalidInput(f"the program's arguments cannot be parsed: {error}") from error


def _parse_chosen_job_id(text: str | None) -> JobId | None:
    return None if text is None else JobId(parse_hex_id(text, "jobId"))


async def _plan(services: RestServices, jarid: str, arguments: ProgramArguments) -> PlanAnswer:
    programs = _programs(services)
    program = await programs.get(jarid)
    async with (
        services.compilations.turn(services.options.max_compilations),
        compile_program(programs, program, arguments, services.options, services.ids) as found,
    ):
        return PlanAnswer(plan=plan_of_graph(found.graph))


async def _run(
    services: RestServices, jarid: str, arguments: ProgramArguments, caller: Requester
) -> JobId:
    programs = _programs(services)
    dispatcher = await services.dispatcher()
    program = await programs.get(jarid)
    async with (
        services.compilations.turn(services.options.max_compilations),
        compile_program(programs, program, arguments, services.options, services.ids) as found,
    ):
        stored = []
        for artifact in found.graph.artifacts:
            path = found.files[artifact.sha256]
            key = await services.blobs.put_file(found.graph.job_id, path, sha256=artifact.sha256)
            stored.append(msgspec.structs.replace(artifact, key=key))
        graph = msgspec.structs.replace(
            found.graph, artifacts=tuple(stored), restore=arguments.restore
        )
    return (await dispatcher.submit_job(graph, caller.name, caller.rights)).job_id


@route(
    ("GET", "POST"),
    f"{_PROGRAM}/plan",
    needs=Permission.SUBMIT,
    status=200,
    summary="Plan of a program, without running it",
    body=ProgramRun,
)
async def program_plan(
    jarid: str,
    request: Request,
    services: RestServices,
    entry_class: EntryClass = None,
    program_arg: ProgramArg = None,
    parallelism: Parallelism = None,
) -> PlanAnswer:
    arguments = await _arguments(
        request,
        services,
        entry_class=entry_class,
        program_args_list=_split_list(program_arg),
        parallelism=parallelism,
    )
    return await _plan(services, jarid, arguments)


def _run_route(
    action: str, status: int, summary: str, kind: Any, answer: Callable[[JobId], Any]
) -> Route:
    """Flink starts a program in two ways, which differ only in their path and their answer."""

    @post(
        f"{_PROGRAM}/{action}",
        needs=Permission.SUBMIT,
        status=status,
        summary=summary,
        answer=kind,
        body=ProgramRun,
    )
    async def run_program(
        jarid: str,
        request: Request,
        services: RestServices,
        entry_class: EntryClass = None,
        program_arg: ProgramArg = None,
        parallelism: Parallelism = None,
        savepoint_path: SavepointPath = None,
        allow_non_restored_state: AllowNonRestored = None,
    ) -> Any:
        arguments = await _arguments(
            request,
            services,
            entry_class=entry_class,
            program_args_list=_split_list(program_arg),
            parallelism=parallelism,
            savepoint_path=savepoint_path,
            allow_non_restored_state=allow_non_restored_state,
        )
        return answer(await _run(services, jarid, arguments, request.caller))

    return run_program


def _split_list(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")


PROGRAM_HANDLERS = (
    list_programs,
    upload_program,
    delete_program,
    program_plan,
    _run_route(
        "run",
        200,
        "Run a program as a job",
        ProgramStarted,
        lambda job_id: ProgramStarted(jobid=job_id, application_id=job_id),
    ),
    _run_route(
        "run-application",
        202,
        "Run a program as an application",
        ApplicationStarted,
        lambda job_id: ApplicationStarted(applicationid=job_id),
    ),
)
