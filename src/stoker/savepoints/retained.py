"""Retained checkpoints: the last checkpoint of each ended job, from which another can continue.

Each has the form of a savepoint, in a folder named after its job. A job that was stopped with a
savepoint has a reference to that savepoint there instead of a copy.

The cluster makes them without being asked, so it also removes them: those that are too old, and
those beyond a number for each job name. It never removes savepoints, nor checkpoints of releases
that left the removal to the user.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from stoker.core.checkpoints import SavepointSummary
from stoker.core.errors import NotFound, StokerError
from stoker.core.ids import JobId
from stoker.core.values import Millis, Value, decode_value
from stoker.savepoints.catalog import names_with_manifest, remove, summary_of
from stoker.savepoints.locations import SavepointLocation, SavepointServices, locate
from stoker.savepoints.manifest import MANIFEST
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

FOLDER = "retained"
"""Folder in the cluster's storage, unless an option names a directory."""
_STOPPED_WITH = "savepoint.json"


class StoppedWith(Value):
    """Refers to the savepoint with which the job was stopped."""

    path: str
    version: int = 1


def retained_location(
    job_id: JobId, storage: Storage, services: SavepointServices
) -> SavepointLocation:
    return _location(f"checkpoint-{job_id}", storage, services)


def _location(name: str, storage: Storage, services: SavepointServices) -> SavepointLocation:
    directory = services.options.retained_directory
    if directory is not None:
        return locate(f"{directory.rstrip('/')}/{name}", services.open_storage)
    inside = f"{FOLDER}/{name}"
    return SavepointLocation(parent=storage, name=inside, url=storage.url(inside))


async def refer_to_savepoint(location: SavepointLocation, path: str) -> None:
    """Instead of a copy: the savepoint at `path` is the last checkpoint of the job."""
    content = msgspec.json.encode(StoppedWith(path=path))
    await location.parent.write(location.inside(_STOPPED_WITH), content)


async def last_checkpoint(
    job_id: JobId, storage: Storage, services: SavepointServices
) -> SavepointLocation | None:
    """Where an ended job left its last checkpoint; None if nothing was kept."""
    location = retained_location(job_id, storage, services)
    if await location.parent.exists(location.inside(MANIFEST)):
        return location
    reference = location.inside(_STOPPED_WITH)
    try:
        content = await location.parent.read(reference)
    except NotFound:
        return None
    saved = locate(decode_value(content, StoppedWith, reference).path, services.open_storage)
    return saved if await saved.parent.exists(saved.inside(MANIFEST)) else None


async def list_retained(storage: Storage, services: SavepointServices) -> list[SavepointSummary]:
    """Newest first."""
    directory = services.options.retained_directory
    if directory is not None:
        names = names_with_manifest(await services.open_storage(directory).list(""))
    else:
        paths = await storage.list(FOLDER)
        names = names_with_manifest(path.removeprefix(f"{FOLDER}/") for path in paths)
    found = [await summary_of(_location(name, storage, services)) for name in names]
    # The same directory may hold savepoints.
    kept = [each for each in found if each.kind == "checkpoint" or each.damage]
    return sorted(kept, key=lambda each: (-each.created_at, each.path))


def expired(
    checkpoints: Iterable[SavepointSummary],
    *,
    oldest: Millis,
    max_count: int,
) -> list[SavepointSummary]:
    """Pure. Those to remove: made before `oldest`, or not among the newest of their job name.

    Jobs of several owners may have one name; nobody removes the checkpoints of somebody else.
    """
    seen: dict[tuple[str, str], int] = defaultdict(int)
    found = []
    for each in sorted(checkpoints, key=lambda each: (-each.created_at, each.path)):
        if not each.expires:
            continue
        seen[each.owner, each.job_name] += 1
        if each.created_at < oldest or seen[each.owner, each.job_name] > max_count:
            found.append(each)
    return found


async def _remove_old_references(
    storage: Storage, services: SavepointServices, oldest: Millis
) -> None:
    directory = services.options.retained_directory
    home, folder = (
        (storage, FOLDER) if directory is None else (services.open_storage(directory), "")
    )
    for path, at in (await home.modified(folder)).items():
        if path.endswith(f"/{_STOPPED_WITH}") and at * 1000 < oldest:
            await home.delete(path)


async def remove_expired(storage: Storage, services: SavepointServices, now: Millis) -> None:
    """Idempotent. A checkpoint that cannot be removed stays until the next time."""
    options = services.options
    oldest = int(now - options.retained_max_age.total_seconds() * 1000)
    try:
        retained = await list_retained(storage, services)
        await _remove_old_references(storage, services, oldest)
    except StokerError as error:
        log.warning("retained checkpoints are not cleaned up for now: %s", error)
        return
    for each in expired(retained, oldest=oldest, max_count=options.retained_max_count):
        log.info("removing the retained checkpoint %s of job %s", each.path, each.job_name)
        name = each.path.rstrip("/").rpartition("/")[2]
        try:
            await remove(_location(name, storage, services))
        except StokerError as error:
            log.warning("%s stays for now: %s", each.path, error)
