"""Receiving the parts of a multipart request, as a stream, into a directory of the request."""

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from multipart import (  # type: ignore[import-untyped]
    MultipartError,
    MultipartSegment,
    PushMultipartParser,
    parse_options_header,
)

from stoker.api.submission import ARTIFACT_PART, GRAPH_PART
from stoker.core.errors import InvalidInput, StorageUnavailable, TooLarge
from stoker.rest.options import RestOptions

_WRITE_SIZE = 1024 * 1024
_MAX_PARTS = 1000


@dataclass(frozen=True, kw_only=True)
class UploadedFile:
    label: str
    """What the client calls it: shown in errors, never used as a path."""
    path: Path
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Upload:
    graph: bytes
    files: tuple[UploadedFile, ...]


@asynccontextmanager
async def received_upload(
    chunks: AsyncGenerator[bytes, None],
    content_type: str,
    content_length: int | None,
    options: RestOptions,
) -> AsyncIterator[Upload]:
    """The parts of the request; their files are gone when the context ends, however it ends."""
    if content_length is not None and content_length > options.max_content_length:
        raise _request_too_large(options)
    try:
        directory = Path(tempfile.mkdtemp(prefix="stoker-upload-", dir=options.upload_directory))
    except OSError as error:
        raise _cannot_store(error, options) from error
    try:
        reader = _PartReader(directory, options)
        parser = _parser(content_type)
        try:
            await _read(chunks, parser, reader, options)
        except MultipartError as error:
            raise InvalidInput(f"the multipart body cannot be read: {error}") from error
        except OSError as error:
            raise _cannot_store(error, options) from error
        finally:
            reader.close()
        yield reader.upload()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _parser(content_type: str) -> PushMultipartParser:
    kind, parameters = parse_options_header(content_type)
    boundary = parameters.get("boundary")
    if kind != "multipart/form-data" or not boundary:
        raise InvalidInput(
            "a job is submitted as multipart/form-data with a part named "
            f"{GRAPH_PART!r} (JSON) and one part named {ARTIFACT_PART!r} for each of its files; "
            f"found content type {content_type or 'none'!r}"
        )
    return PushMultipartParser(boundary, max_segment_count=_MAX_PARTS)


async def _read(
    chunks: AsyncGenerator[bytes, None],
    parser: PushMultipartParser,
    reader: "_PartReader",
    options: RestOptions,
) -> None:
    received = 0
    with parser:
        async for chunk in chunks:
            received += len(chunk)
            if received > options.max_content_length:
                raise _request_too_large(options)
            if not chunk or parser.closed:
                continue
            for event in parser.parse(chunk):
                match event:
                    case None:
                        await reader.end()
                    case MultipartSegment():
                        reader.begin(event)
                    case data:
                        await reader.add(bytes(data))


class _PartReader:
    """Keeps the graph in memory and each file on disk, hashed as it arrives."""

    def __init__(self, directory: Path, options: RestOptions) -> None:
        self._directory = directory
        self._options = options
        self._graph: bytearray | None = None
        self._in_graph = False
        self._file: FileWriter | None = None
        self._files: list[UploadedFile] = []

    def begin(self, segment: MultipartSegment) -> None:
        if segment.name == GRAPH_PART:
            if self._graph is not None:
                raise InvalidInput(f"the part {GRAPH_PART!r} occurs twice")
            self._graph = bytearray()
            self._in_graph = True
        elif segment.name == ARTIFACT_PART:
            path = self._directory / str(len(self._files))
            self._file = FileWriter(path, segment.filename or "unnamed")
        else:
            raise InvalidInput(
                f"unknown part {segment.name!r}: only {GRAPH_PART!r} and {ARTIFACT_PART!r} are read"
            )

    async def add(self, data: bytes) -> None:
        if self._file is not None:
            await self._file.add(data)
        elif self._in_graph and self._graph is not None:
            self._graph += data
            if len(self._graph) > self._options.max_graph_size:
                raise TooLarge(
                    f"the job graph is larger than {self._options.max_graph_size} bytes; move "
                    "data out of it into files, or raise rest.server.max-graph-size"
                )

    async def end(self) -> None:
        self._in_graph = False
        if self._file is not None:
            self._files.append(await self._file.finish())
            self._file = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def upload(self) -> Upload:
        if self._graph is None:
            raise InvalidInput(f"the part {GRAPH_PART!r} with the job graph as JSON is missing")
        return Upload(graph=bytes(self._graph), files=tuple(self._files))


class FileWriter:
    """Writes and hashes outside the event loop, since a slow disk must not stop the master."""

    def __init__(self, path: Path, label: str) -> None:
        self._path = path
        self._label = label
        self._file = path.open("wb", buffering=0)
        self._digest = hashlib.sha256()
        self._size = 0
        self._pending = bytearray()

    async def add(self, data: bytes) -> None:
        self._pending += data
        if len(self._pending) >= _WRITE_SIZE:
            await self._write()

    async def _write(self) -> None:
        data, self._pending = self._pending, bytearray()
        await asyncio.to_thread(self._write_all, data)

    def _write_all(self, data: bytearray) -> None:
        self._digest.update(data)
        self._size += len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]

    async def finish(self) -> UploadedFile:
        if self._pending:
            await self._write()
        self.close()
        return UploadedFile(
            label=self._label,
            path=self._path,
            sha256=self._digest.hexdigest(),
            size=self._size,
        )

    def close(self) -> None:
        self._file.close()


def _request_too_large(options: RestOptions) -> TooLarge:
    return TooLarge(
        f"the request is larger than {options.max_content_length} bytes; "
        "send smaller files, or raise rest.server.max-content-length"
    )


def _cannot_store(error: OSError, options: RestOptions) -> StorageUnavailable:
    place = options.upload_directory or tempfile.gettempdir()
    return StorageUnavailable(
        f"the upload cannot be kept in {place}: {error.strerror or error}; "
        "make room there, or set web.upload.dir to another directory"
    )
