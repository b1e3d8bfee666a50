"""Start a job from a savepoint: copy its files into the job's own checkpoints.

Every byte is compared with the manifest on its way. Restoring twice is harmless: the same files are
written again, and the record comes last. Nothing is deleted first, so a previous leader that still
writes cannot harm what a later one has restored.
"""

import re
import uuid
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

import msgspec

from stoker.core.errors import NotFound, UnusableSavepoint
from stoker.core.failpoints import failpoint
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId
from stoker.core.values import Millis, Value, decode_value
from stoker.savepoints.access import ALL_SAVEPOINTS, SavepointAccess
from stoker.savepoints.compatibility import Compatibility, compare
from stoker.savepoints.copying import checksum, copy_file, for_all
from stoker.savepoints.locations import (
    OpenStorage,
    SavepointLocation,
    locate,
    off_loop_if_large,
    read_manifest,
)
from stoker.savepoints.logs import moved_operator
from stoker.savepoints.manifest import (
    GRAPH,
    LARGEST_GRAPH,
    SavedFile,
    SavedQuery,
    SavepointManifest,
    decode_graph,
)
from stoker.savepoints.take import checkpoint_folder
from stoker.storage.contract import Storage

_QUERY_ID = "metadata"
_OPERATOR = re.compile(r"state/\d+/_metadata/v2/\d+")
_CHECKSUM_OF_CHANGED = re.compile(r"\.metadata\.crc|state/\d+/_metadata/v2/\.\d+\.crc")
"""Checksum files of files whose content differs in the new job."""


class RestoreRecord(Value):
    """Written when all files are in place: from then on the job's own checkpoints count."""

    path: str
    at: Millis
    kind: str
    batches: dict[str, int] = {}
    version: int = 1


def restore_record_path(job_id: JobId) -> str:
    return f"jobs/{job_id}/restored.json"


async def read_restore_record(storage: Storage, job_id: JobId) -> RestoreRecord | None:
    path = restore_record_path(job_id)
    try:
        content = await storage.read(path)
    except NotFound:
        return None
    return decode_value(content, RestoreRecord, path)


async def restore(
    location: SavepointLocation,
    manifest: SavepointManifest,
    storage: Storage,
    job_id: JobId,
    *,
    regions: Iterable[str],
    now: Millis,
) -> RestoreRecord:
    """Copy the queries of these regions; idempotent."""
    wanted = [query for region in regions if (query := manifest.query(region)) is not None]
    for query in wanted:
        await _restore_query(location, manifest, query, storage, job_id)
    record = RestoreRecord(
        path=location.url,
        at=now,
        kind=manifest.kind,
        batches={q.region: q.batch_id for q in wanted if q.batch_id is not None},
    )
    failpoint("restore.before-record")
    await storage.write(restore_record_path(job_id), msgspec.json.encode(record))
    failpoint("restore.after-record")
    return record


async def _restore_query(
    location: SavepointLocation,
    manifest: SavepointManifest,
    query: SavedQuery,
    storage: Storage,
    job_id: JobId,
) -> None:
    folder = checkpoint_folder(job_id, query.region)

    async def copy(file: SavedFile) -> None:
        inside = file.path.removeprefix(f"{query.directory}/")
        if _CHECKSUM_OF_CHANGED.fullmatch(inside):
            return
        failpoint("restore.before-a-copy")
        target = f"{folder}/{inside}"
        await copy_saved_file(location, file, storage, target)
        if inside == _QUERY_ID:
            await storage.write(target, _new_query_id(job_id, manifest, query))
        if _OPERATOR.fullmatch(inside):
            moved = moved_operator(
                await storage.read(target),
                file.path,
                lambda path: _hadoop_path(storage.url(f"{folder}/{path}")),
            )
            await storage.write(target, moved)

    await for_all(manifest.files_of(query), copy)


async def copy_saved_file(
    location: SavepointLocation, file: SavedFile, storage: Storage, target: str
) -> None:
    """Copy a file of the savepoint; UnusableSavepoint if it is missing or not as it was saved."""
    try:
        copied = await copy_file(location.parent, location.inside(file.path), storage, target)
    except NotFound:
        raise UnusableSavepoint(location.url, f"its file {file.path} is missing") from None
    _check_same(file, copied, location)


def _new_query_id(job_id: JobId, manifest: SavepointManifest, query: SavedQuery) -> bytes:
    """A new query id: Spark stops a running query with the same id, and the saved job may run."""
    name = f"{job_id}/{query.region}/{manifest.savepoint_id}"
    return msgspec.json.encode({"id": str(uuid.uuid5(uuid.NAMESPACE_OID, name))})


def _hadoop_path(url: str) -> str:
    """Hadoop reads a path literally, without the escapes of a URL."""
    parts = urlsplit(url)
    return f"file:{unquote(parts.path)}" if parts.scheme == "file" else url


def _check_same(expected: SavedFile, found: SavedFile, location: SavepointLocation) -> None:
    if found.size != expected.size:
        raise UnusableSavepoint(
            location.url,
            f"its file {expected.path} has {found.size} bytes instead of {expected.size}; "
            "copy the savepoint again from where it was taken",
        )
    if found.sha256 != expected.sha256:
        raise UnusableSavepoint(
            location.url,
            f"the content of its file {expected.path} is not what was saved (checksum "
            f"{found.sha256[:12]}…, expected {expected.sha256[:12]}…); copy the savepoint again",
        )


async def verify(location: SavepointLocation, manifest: SavepointManifest) -> list[str]:
    """Describe each fault of the files; empty if the savepoint can be used."""

    async def fault_of(file: SavedFile) -> str | None:
        try:
            _check_same(file, await checksum(location.parent, location.inside(file.path)), location)
        except UnusableSavepoint as error:
            return str(error.facts["reason"])
        except NotFound:
            return f"its file {file.path} is missing"
        return None

    return [words for words in await for_all(manifest.files, fault_of) if words is not None]


async def saved_graph(location: SavepointLocation) -> JobGraph:
    try:
        content = await location.parent.read(location.inside(GRAPH), limit=LARGEST_GRAPH)
    except NotFound:
        raise UnusableSavepoint(location.url, f"its file {GRAPH} is missing") from None
    return await off_loop_if_large(len(content), decode_graph, content, location.url)


async def check_savepoint_of(
    graph: JobGraph, open_storage: OpenStorage, access: SavepointAccess = ALL_SAVEPOINTS
) -> tuple[SavepointLocation, SavepointManifest, Compatibility]:
    """Read the savepoint that the job starts from; IncompatibleSavepoint has all reasons.

    Forbidden if who submitted the job may not use the savepoint.
    """
    assert graph.restore is not None
    location = locate(graph.restore.path, open_storage)
    manifest = await read_manifest(location)
    access.check(location.url, manifest.owner)
    compatibility = compare(manifest, await saved_graph(location), graph)
    compatibility.check(
        location.url, allow_non_restored_state=graph.restore.allow_non_restored_state
    )
    return location, manifest, compatibility
