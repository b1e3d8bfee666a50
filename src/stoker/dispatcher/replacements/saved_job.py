"""Rebuilds a job from the copy of its graph and files that its savepoint contains.

The original record of the job is removed when the job has ended, so the savepoint is the only
place from which the old version of a replacement can be submitted again.
"""

from collections.abc import Mapping

import msgspec

from stoker.blob.keys import path_of
from stoker.core.errors import NotFound, UnusableSavepoint
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import BlobKey, JobId
from stoker.savepoints.copying import copy_file
from stoker.savepoints.locations import OpenStorage, SavepointLocation, locate
from stoker.savepoints.manifest import artifact_path
from stoker.savepoints.restore import saved_graph
from stoker.storage.contract import Storage


async def saved_job(
    savepoint: str,
    job_id: JobId,
    *,
    origin: str | None,
    configuration: Mapping[str, str],
    storage: Storage,
    open_storage: OpenStorage,
) -> JobGraph:
    """The saved graph under another id. Its files are in the storage when this returns."""
    location = locate(savepoint, open_storage)
    graph = await saved_graph(location)
    for artifact in graph.artifacts:
        stored = path_of(job_id, artifact.key or BlobKey(artifact.sha256))
        await _copy_artifact(location, artifact.sha256, storage, stored)
    return msgspec.structs.replace(
        graph,
        job_id=job_id,
        idempotency_key=None,
        restore=Restore(path=origin or savepoint),
        configuration={**graph.configuration, **configuration},
    )


async def _copy_artifact(
    location: SavepointLocation, sha256: str, storage: Storage, stored: str
) -> None:
    path = artifact_path(sha256)
    try:
        copied = await copy_file(location.parent, location.inside(path), storage, stored)
    except NotFound:
        raise UnusableSavepoint(location.url, f"its file {path} is missing") from None
    if copied.sha256 != sha256:
        await storage.delete(stored)
        raise UnusableSavepoint(location.url, f"its file {path} is damaged")
