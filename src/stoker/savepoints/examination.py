"""Examine a checkpoint or a savepoint, and copy its last good batch out of it."""

import asyncio
import io
import posixpath
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import InvalidInput, NotFound
from stoker.savepoints.copying import LARGEST_IN_MEMORY, as_local_file, copy_file, for_all
from stoker.savepoints.doctor import (
    Diagnosis,
    Evidence,
    diagnose,
    matches_checksums,
    needs_content,
)
from stoker.savepoints.layout import checksum_path
from stoker.savepoints.locations import OpenStorage, SavepointLocation, locate, read_manifest
from stoker.savepoints.manifest import MANIFEST
from stoker.savepoints.restore import verify
from stoker.storage.contract import Storage


@dataclass(frozen=True, kw_only=True)
class Examination:
    path: str
    is_savepoint: bool
    wrong_files: tuple[str, ...]
    """Differences from the manifest, if it is a savepoint."""
    queries: tuple[Diagnosis, ...]
    folders: tuple[str, ...]
    """Folder of each query, relative to the path."""

    @property
    def is_sound(self) -> bool:
        return not self.wrong_files and all(query.is_sound for query in self.queries)


async def examine(path: str, open_storage: OpenStorage) -> Examination:
    """Examine a savepoint, the checkpoint of one query, or a directory of several."""
    location = locate(path, open_storage)
    names = [
        name.removeprefix(f"{location.name}/") for name in await location.parent.list(location.name)
    ]
    if not names:
        raise NotFound(f"there is nothing at {location.url}; check the path", path=location.url)
    wrong: tuple[str, ...] = ()
    is_savepoint = MANIFEST in names
    if is_savepoint:
        manifest = await read_manifest(location)
        wrong = tuple(await verify(location, manifest))
        folders = [query.directory for query in manifest.queries if query.batch_id is not None]
    else:
        folders = sorted(_query_folders(names)) or [""]
    queries = [await _diagnose(location, folder, names) for folder in folders]
    return Examination(
        path=location.url,
        is_savepoint=is_savepoint,
        wrong_files=wrong,
        queries=tuple(queries),
        folders=tuple(folders),
    )


def _query_folders(names: list[str]) -> set[str]:
    marks = ("metadata", "offsets", "commits")
    found: set[str] = set()
    for name in names:
        parts = name.split("/")
        if parts[0] in marks and (len(parts) > 1 or parts[0] == "metadata"):
            return {""}
        if len(parts) > 1 and parts[1] in marks:
            found.add(parts[0])
    return found


async def _diagnose(location: SavepointLocation, folder: str, names: list[str]) -> Diagnosis:
    root = posixpath.join(location.name, folder) if folder else location.name
    prefix = f"{folder}/" if folder else ""
    paths = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    contents: dict[str, bytes] = {}
    damaged: dict[str, str] = {}
    sizes: dict[str, int] = {}
    present = set(paths)

    async def read(path: str) -> None:
        if path.rpartition("/")[2].startswith("."):
            return
        try:
            await examine_content(path)
        except NotFound:
            # The query is running, and Spark has deleted the file since it was listed.
            present.discard(path)
            sizes.pop(path, None)
            contents.pop(path, None)

    async def examine_content(path: str) -> None:
        full = f"{root}/{path}"
        sizes[path] = await location.parent.size(full)
        if needs_content(path):
            contents[path] = await location.parent.read(full)
        beside = checksum_path(path)
        if beside not in present:
            return
        checksums = await location.parent.read(f"{root}/{beside}")
        if path in contents:
            is_intact = matches_checksums(io.BytesIO(contents[path]), checksums)
        else:
            is_intact = await _matches_checksums(location.parent, full, checksums)
        if not is_intact:
            damaged[path] = "its content differs from what Spark wrote (wrong checksum)"

    await for_all(paths, read)
    query = folder.rpartition("/")[2] or location.name
    evidence = Evidence(paths=sorted(present), contents=contents, damaged=damaged, sizes=sizes)
    return diagnose(query, evidence)


async def _matches_checksums(storage: Storage, path: str, checksums: bytes) -> bool:
    """Compare a file of any size without loading it into memory."""
    if await storage.size(path) <= LARGEST_IN_MEMORY:
        return matches_checksums(io.BytesIO(await storage.read(path)), checksums)

    def compare(local: Path) -> bool:
        with local.open("rb") as file:
            return matches_checksums(file, checksums)

    async with as_local_file(storage, path) as local:
        return await asyncio.to_thread(compare, local)


async def cut_back(examination: Examination, target: str, open_storage: OpenStorage) -> None:
    """Copy every query at its last good batch; the original stays as it is."""
    broken = [query.query for query in examination.queries if query.last_good is None]
    if broken:
        raise InvalidInput(
            f"no batch of {', '.join(broken)} is complete: there is nothing to cut back to"
        )
    source, copy = locate(examination.path, open_storage), locate(target, open_storage)
    if await copy.parent.list(copy.name):
        raise InvalidInput(f"{copy.url} is not empty; name a directory that does not exist yet")
    for query, folder in zip(examination.queries, examination.folders, strict=True):
        prefix = f"{folder}/" if folder else ""

        async def put(path: str, prefix: str = prefix) -> None:
            await copy_file(
                source.parent,
                source.inside(f"{prefix}{path}"),
                copy.parent,
                copy.inside(f"{prefix}{path}"),
            )

        await for_all(query.files, put)
