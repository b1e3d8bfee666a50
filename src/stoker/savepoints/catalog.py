"""The savepoints of a directory: listed, and disposed of."""

from stoker.core.checkpoints import SavepointSummary
from stoker.core.errors import InvalidInput, StokerError
from stoker.core.failpoints import failpoint
from stoker.savepoints.locations import OpenStorage, SavepointLocation, locate, read_manifest
from stoker.savepoints.manifest import MANIFEST
from stoker.storage.contract import Storage


async def list_savepoints(directory: str, open_storage: OpenStorage) -> list[SavepointSummary]:
    """Those with a manifest, newest first; one that cannot be read is shown with the reason."""
    storage = open_storage(directory)
    names = [
        path.removesuffix(f"/{MANIFEST}")
        for path in await storage.list("")
        if path.count("/") == 1 and path.endswith(f"/{MANIFEST}")
    ]
    found = [await _summary(storage, directory, name) for name in names]
    return sorted(found, key=lambda each: (-each.created_at, each.path))


async def _summary(storage: Storage, directory: str, name: str) -> SavepointSummary:
    url = f"{directory.rstrip('/')}/{name}"
    try:
        manifest = await read_manifest(SavepointLocation(parent=storage, name=name, url=url))
    except StokerError as error:
        return SavepointSummary(
            path=url,
            job_id="",
            job_name="",
            created_at=0,
            kind="",
            size_bytes=0,
            damage=error.message,
        )
    return manifest.summary(url)


async def dispose(path: str, open_storage: OpenStorage, cluster_storage: Storage) -> None:
    """Only what has a manifest, and never anything of the cluster's own storage of jobs."""
    location = locate(path, open_storage)
    own = cluster_storage.url("jobs")
    if _plain(location.url) == _plain(own) or _plain(location.url).startswith(f"{_plain(own)}/"):
        raise InvalidInput(
            f"{location.url} belongs to a job of this cluster and is not a savepoint; the files "
            "of a job go when the job has ended"
        )
    await read_manifest(location)
    # First what makes it a savepoint, so that half of one is never taken for whole.
    failpoint("dispose.before-manifest")
    await location.parent.delete(location.inside(MANIFEST))
    failpoint("dispose.after-manifest")
    await location.parent.delete_tree(location.name)


def _plain(url: str) -> str:
    return url.removeprefix("file://").rstrip("/")
