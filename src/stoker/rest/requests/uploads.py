"""Receives the parts of a multipart request as a stream.

A job may come with gigabytes of files, in a process that must renew its leases every few seconds.
So no file is held in memory, and no write, hash or removal runs on the event loop. A client may
also lie about the length of its request, disconnect, or send anything for a file name.

Invariant: the files of a request exist only while its context is open, however it ends; a name
that the client chose is shown in messages and never used as a path.

Order: a file is written and hashed once, while it arrives. When all parts are complete, the caller
compares the hashes with those in the graph and hands the files over; only what is left is deleted.
"""

import asyncio
import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from multipart import (  # type: ignore[import-untyped]
    MultipartError,
    MultipartSegment,
    PushMultipartParser,
    parse_options_header,
)

from stoker.api.jobs import ARTIFACT_PART, GRAPH_PART
from stoker.core.errors import InvalidInput, StorageFull, StorageUnavailable, TooLarge
from stoker.rest.options import RestOptions
from stoker.storage.contract import is_full

REQUEST_PREFIX = "stoker-upload-"
PROGRAM_PREFIX = "stoker-program-"
"""Beginnings of the names of directories that hold the files of requests."""
_WRITE_SIZE = 1024 * 1024
_MAX_PARTS = 1000
_SUBMISSION = (
    "a job is submitted as multipart/form-data with a part named "
    f"{GRAPH_PART!r} (JSON) and one part named {ARTIFACT_PART!r} for each of its files"
)
_ONE_FILE = "a file is sent as multipart/form-data with one part that has a file name"


@dataclass(frozen=True, kw_only=True)
class UploadedFile:
    label: str
    """Name given by the client; shown in errors, never used as a path."""
    path: Path
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Upload:
    graph: bytes
    files: tuple[UploadedFile, ...]


class RequestFolder:
    """A temporary directory for the files of one request.

    Created with the first file: most submissions have none, and creating a directory takes as long
    as handling one of them.
    """

    def __init__(self, parent: Path | None) -> None:
        self._parent = parent
        self._path: Path | None = None

    def file(self, name: str) -> Path:
        if self._path is None:
            self._path = make_temporary_directory(REQUEST_PREFIX, self._parent)
        return self._path / name

    async def remove(self) -> None:
        if self._path is not None:
            await asyncio.to_thread(shutil.rmtree, self._path, ignore_errors=True)


def remove_leftovers(parent: Path, *, before: float) -> None:
    """Remove the directories of requests that a killed master has left.

    Several masters may use the directory, so only those that were made before `before`, in seconds
    since 1970, are removed.
    """
    for prefix in (REQUEST_PREFIX, PROGRAM_PREFIX):
        for directory in parent.glob(f"{prefix}*"):
            with contextlib.suppress(FileNotFoundError):
                if directory.lstat().st_mtime < before:
                    shutil.rmtree(directory, ignore_errors=True)


def make_temporary_directory(prefix: str, parent: Path | None) -> Path:
    """Create `parent` as well if it is missing; without it the system's directory is used."""
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))


@asynccontextmanager
async def receive_upload(
    chunks: AsyncGenerator[bytes, None],
    content_type: str,
    content_length: int | None,
    options: RestOptions,
) -> AsyncIterator[Upload]:
    """The graph and the files of a job; the files are deleted when the context ends."""
    parser = _make_parser(content_type, _SUBMISSION)
    async with _receive_parts(chunks, parser, content_length, options, JobPartsReader) as reader:
        yield reader.upload()


@asynccontextmanager
async def receive_file(
    chunks: AsyncGenerator[bytes, None],
    content_type: str,
    content_length: int | None,
    options: RestOptions,
) -> AsyncIterator[UploadedFile]:
    """The only file of the request; it is deleted when the context ends."""
    parser = _make_parser(content_type, _ONE_FILE)
    async with _receive_parts(chunks, parser, content_length, options, SingleFileReader) as reader:
        yield reader.file()


@asynccontextmanager
async def _receive_parts(
    chunks: AsyncGenerator[bytes, None],
    parser: PushMultipartParser,
    content_length: int | None,
    options: RestOptions,
    make_reader: "Callable[[RequestFolder, RestOptions], R]",
) -> "AsyncIterator[R]":
    """Yields the reader of all parts; deletes their files when the context ends."""
    if content_length is not None and content_length > options.max_content_length:
        raise request_too_large(options)
    folder = RequestFolder(options.upload_directory)
    try:
        reader = make_reader(folder, options)
        try:
            await _read_parts(chunks, parser, reader, options)
        except MultipartError as error:
            raise InvalidInput(f"the multipart body cannot be read: {error}") from error
        except OSError as error:
            raise _storage_error(error, options) from error
        finally:
            reader.close()
        yield reader
    finally:
        await folder.remove()


def _make_parser(content_type: str, expected: str) -> PushMultipartParser:
    kind, parameters = parse_options_header(content_type)
    boundary = parameters.get("boundary")
    if kind != "multipart/form-data" or not boundary:
        raise InvalidInput(f"{expected}; found content type {content_type or 'none'!r}")
    try:
        return PushMultipartParser(boundary, max_segment_count=_MAX_PARTS)
    except (ValueError, MultipartError) as error:
        raise InvalidInput(f"the boundary of the multipart body is malformed: {error}") from error


async def _read_parts(
    chunks: AsyncGenerator[bytes, None],
    parser: PushMultipartParser,
    reader: "PartReader",
    options: RestOptions,
) -> None:
    received = 0
    with parser:
        async for chunk in chunks:
            received += len(chunk)
            if received > options.max_content_length:
                raise request_too_large(options)
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


class PartReader(Protocol):
    def begin(self, segment: MultipartSegment) -> None: ...

    async def add(self, data: bytes) -> None: ...

    async def end(self) -> None: ...

    def close(self) -> None: ...


R = TypeVar("R", bound=PartReader)


class JobPartsReader:
    """Keeps the graph in memory and each file on disk, hashed as it arrives."""

    def __init__(self, folder: RequestFolder, options: RestOptions) -> None:
        self._folder = folder
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
            path = self._folder.file(str(len(self._files)))
            self._file = FileWriter(path, segment.filename or "unnamed")
        else:
            raise InvalidInput(
                f"unknown part {segment.name!r}: expected {GRAPH_PART!r} or {ARTIFACT_PART!r}"
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


class SingleFileReader:
    """Keeps the only part, which must be a file."""

    def __init__(self, folder: RequestFolder, options: RestOptions) -> None:
        self._folder = folder
        self._writer: FileWriter | None = None
        self._file: UploadedFile | None = None

    def begin(self, segment: MultipartSegment) -> None:
        if segment.filename is None:
            raise InvalidInput(f"unknown part {segment.name!r}: a single file is expected")
        if self._file is not None or self._writer is not None:
            raise InvalidInput("the request has more than one file; send one at a time")
        self._writer = FileWriter(self._folder.file("file"), segment.filename)

    async def add(self, data: bytes) -> None:
        if self._writer is not None:
            await self._writer.add(data)

    async def end(self) -> None:
        if self._writer is not None:
            self._file, self._writer = await self._writer.finish(), None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def file(self) -> UploadedFile:
        if self._file is None:
            raise InvalidInput("the request has no file; send one part with a file name")
        return self._file


class FileWriter:
    """Writes and hashes a file in a thread, since a slow disk must not stop the master."""

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


def request_too_large(options: RestOptions) -> TooLarge:
    return TooLarge(
        f"the request is larger than {options.max_content_length} bytes; "
        "send smaller files, or raise rest.server.max-content-length"
    )


def _storage_error(error: OSError, options: RestOptions) -> StorageUnavailable:
    place = options.upload_directory or tempfile.gettempdir()
    kind = StorageFull if is_full(error) else StorageUnavailable
    return kind(
        f"the upload cannot be stored in {place}: {error.strerror or error}; "
        "free some space there, or set web.upload.dir to another directory"
    )
