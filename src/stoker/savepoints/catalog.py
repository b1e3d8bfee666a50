"""List the savepoints of a directory, and dispose of one."""

from collections.abc import Iterable

from stoker.core.checkpoints import SavepointSummary
from stoker.core.errors import InvalidInput, StokerError
from stoker.core.failpoints import failpoint
from stoker.savepoints.access import ALL_SAVEPOINTS, SavepointAccess
from stoker.savepoints.locations import OpenStorage, SavepointLocation, locate, read_manifest
from stoker.savepoints.manifest import MANIFEST
from stoker.savepoints.places import normal_form
from stoker.storage.contract import Storage


async def list_savepoints(directory: str, open_storage: OpenStorage) -> list[SavepointSummary]:
    """Summaries of the directories with a manifest, newest first.

    The summary of one that cannot be read carries the reason.
    """
    storage = open_storage(directory)
    found = [
        await summary_of(
            SavepointLocation(parent=storage, name=name, url=f"{directory.rstrip('/')}/{name}")
        )
        for name in names_with_manifest(await storage.list(""))
    ]
    return sorted(found, key=lambda each: (-each.created_at, each.path))


def names_with_manifest(paths: Iterable[str]) -> list[str]:
    """Names of the folders that hold a manifest, of all files in a directory."""
    return [
        path.removesuffix(f"/{MANIFEST}")
        for path in paths
        if path.count("/") == 1 and path.endswith(f"/{MANIFEST}")
    ]


async def summary_of(location: SavepointLocation) -> SavepointSummary:
    url = location.url
    try:
        manifest = await read_manifest(location)
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


async def dispose(
    path: str,
    open_storage: OpenStorage,
    cluster_storage: Storage,
    access: SavepointAccess = ALL_SAVEPOINTS,
) -> None:
    """Delete a savepoint; refuses a directory without a manifest, or of a job of this cluster.

    Forbidden if the caller may not use the savepoint.
    """
    location = locate(path, open_storage)
    jobs = normal_form(cluster_storage.url("jobs"))
    if f"{normal_form(location.url)}/".startswith(f"{jobs}/"):
        raise InvalidInput(
            f"{location.url} belongs to a job of this cluster and is not a savepoint; the files "
            "of a job are deleted when the job has ended"
        )
    manifest = await read_manifest(location)
    access.check(location.url, manifest.owner)
    await remove(location)


async def remove(location: SavepointLocation) -> None:
    # The manifest first, so that a half-deleted savepoint is never taken for a complete one.
    failpoint("dispose.before-manifest")
    await location.parent.delete(location.inside(MANIFEST))
    failpoint("dispose.after-manifest")
    await location.parent.delete_tree(location.name)
