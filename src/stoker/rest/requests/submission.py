"""POST /jobs: a graph with its files becomes a job.

The order matters: without a leading dispatcher nothing is received, and the files are durable
before the dispatcher sees the graph, so that an accepted job never lacks one. The dispatcher
deletes the files of a job that it refuses.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

import msgspec

from stoker.api.jobs import IDEMPOTENCY_KEY, JobSubmitted
from stoker.blob.server import BlobServer
from stoker.core.errors import (
    CorruptContent,
    InvalidInput,
    StokerError,
)
from stoker.core.graph import GRAPH_VERSION, Artifact, JobGraph
from stoker.core.ids import BlobKey, is_hex_id
from stoker.core.values import decode_json
from stoker.rest.http.asgi import Request
from stoker.rest.http.routing import HeaderParameter, post
from stoker.rest.openapi.bodies import submission
from stoker.rest.requests.uploads import Upload, UploadedFile, receive_upload
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

_DRAIN_SECONDS = 10


IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name=IDEMPOTENCY_KEY,
        description="A repeated submission with the same key gives the first answer.",
    ),
]


@post("/jobs", needs=Permission.SUBMIT, status=202, summary="Submit a job", body=submission())
async def submit(
    request: Request, services: RestServices, idempotency_key: IdempotencyKey = None
) -> JobSubmitted:
    async with drain_after_error(request) as chunks:
        # Without a leader it would be pointless to receive files.
        dispatcher = await services.dispatcher()
        async with receive_upload(
            chunks,
            request.headers.get("content-type", ""),
            request.content_length,
            services.options,
        ) as upload:
            graph = decode_graph(upload.graph, idempotency_key)
            graph = await store_files(graph, upload, services.blobs)
        submitted = await dispatcher.submit_job(graph, request.caller.name, request.caller.rights)
        return JobSubmitted(
            job_url=f"/jobs/{submitted.job_id}",
            job_id=submitted.job_id,
            repeated=submitted.repeated,
            continues_from=submitted.continues_from,
        )


@asynccontextmanager
async def drain_after_error(
    request: Request,
) -> AsyncIterator[AsyncGenerator[bytes, None]]:
    """Yields the body in pieces; after an error it reads the rest, so that the client sees why."""
    chunks = request.chunks()
    try:
        yield chunks
    except StokerError:
        await _drain(chunks)
        raise


def decode_graph(content: bytes, idempotency_key: str | None) -> JobGraph:
    try:
        graph = decode_json(content, JobGraph)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the job graph cannot be read: {error}") from error
    if graph.version != GRAPH_VERSION:
        raise InvalidInput(
            f"the job graph has version {graph.version}, this master reads {GRAPH_VERSION}; "
            "use a client of the same version"
        )
    if not is_hex_id(graph.job_id):
        raise InvalidInput(
            f"job_id of the graph must be 32 lower-case hexadecimal digits, found {graph.job_id!r}"
        )
    if idempotency_key is None or idempotency_key == graph.idempotency_key:
        return graph
    if graph.idempotency_key is not None:
        raise InvalidInput(f"header {IDEMPOTENCY_KEY} and idempotency_key of the graph differ")
    return msgspec.structs.replace(graph, idempotency_key=idempotency_key)


async def store_files(graph: JobGraph, upload: Upload, blobs: BlobServer) -> JobGraph:
    keys: dict[str, BlobKey] = {}
    stored = []
    for artifact, file in match_artifacts(graph, upload.files):
        if file.sha256 not in keys:
            keys[file.sha256] = await blobs.adopt(
                graph.job_id, file.path, sha256=file.sha256, size=file.size
            )
        stored.append(msgspec.structs.replace(artifact, key=keys[file.sha256]))
    return msgspec.structs.replace(graph, artifacts=tuple(stored))


async def _drain(chunks: AsyncGenerator[bytes, None]) -> None:
    """Keeps reading for a while: a client that is still sending would miss the answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in chunks:
                pass


def match_artifacts(
    graph: JobGraph, files: Sequence[UploadedFile]
) -> tuple[tuple[Artifact, UploadedFile], ...]:
    """Each artifact with its file, found by content alone; equal artifacts share one file."""
    by_content = {(file.sha256, file.size): file for file in files}
    wanted = {(artifact.sha256, artifact.size) for artifact in graph.artifacts}
    missing = [
        artifact
        for artifact in graph.artifacts
        if (artifact.sha256, artifact.size) not in by_content
    ]
    surplus = [file for file in files if (file.sha256, file.size) not in wanted]
    if missing and surplus:
        raise CorruptContent(
            f"the files do not match the graph: expected {_describe_artifacts(missing)}, but "
            f"received {_describe_files(surplus)}; a file was damaged in transit or has changed: "
            "submit again"
        )
    if missing:
        raise InvalidInput(
            f"files of the graph are not in the request: {_describe_artifacts(missing)}"
        )
    if surplus:
        raise InvalidInput(
            f"the request has files that the graph does not name: {_describe_files(surplus)}"
        )
    if len(files) > len(by_content):
        raise InvalidInput("the request has the same file twice")
    return tuple(
        (artifact, by_content[artifact.sha256, artifact.size]) for artifact in graph.artifacts
    )


def _describe_artifacts(artifacts: Sequence[Artifact]) -> str:
    return ", ".join(
        f"{each.name} ({each.size} bytes, sha256 {each.sha256[:12]})" for each in artifacts
    )


def _describe_files(files: Sequence[UploadedFile]) -> str:
    return ", ".join(
        f"{each.label!r} ({each.size} bytes, sha256 {each.sha256[:12]})" for each in files
    )
