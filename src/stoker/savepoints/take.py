"""Take a savepoint: pin the files that a committed batch needs, copy them, write the manifest last.

The query keeps running meanwhile: Spark commits further batches and deletes old files. So the files
of one batch are pinned first; pinned files stay, whatever Spark deletes. If one is gone before it
is pinned, the cut starts over with the batch that is the latest by then.

The manifest is written last. A directory without one is not a savepoint, so a savepoint that was
cut off at any point is never taken for a complete one.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.core.errors import CorruptContent, NotFound, SavepointFailed, StokerError
from stoker.core.failpoints import failpoint
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId, RegionId, safe_name
from stoker.core.values import Millis
from stoker.savepoints.copying import checksum, copy_file, for_all
from stoker.savepoints.layout import (
    Cut,
    cut_at,
    latest_descriptions,
    layout_of,
    parts_folder,
    with_companions,
)
from stoker.savepoints.locations import SavepointLocation, off_loop_if_large
from stoker.savepoints.logs import (
    Offsets,
    check_commit,
    parse_offsets,
    parse_operator,
    parse_query_id,
    parts_of_snapshot,
)
from stoker.savepoints.manifest import (
    GRAPH,
    LARGEST_MANIFEST,
    MANIFEST,
    SavedFile,
    SavedOperator,
    SavedQuery,
    SavepointManifest,
    artifact_path,
    encode_graph,
    encode_manifest,
)
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

TRIES = 8
"""Attempts to pin a batch before the savepoint fails, while Spark keeps deleting its files."""
_MAX_INLINE_BYTES = 16 * 1024
"""A larger snapshot is checked in a thread."""


def checkpoints_folder(job_id: JobId) -> str:
    return f"jobs/{job_id}/checkpoints"


def checkpoint_folder(job_id: JobId, region: str) -> str:
    return f"{checkpoints_folder(job_id)}/{safe_name(region)}"


def pins_folder(job_id: JobId) -> str:
    return f"jobs/{job_id}/pins"


@dataclass(frozen=True, kw_only=True)
class SavepointHeader:
    """The identity, time and versions that the manifest states."""

    savepoint_id: str
    kind: str
    at: Millis
    stoker_version: str = ""
    spark_version: str = ""
    stopped: bool = False
    expires: bool = False
    owner: str = ""


class SavepointWriter:
    """Writes one savepoint of one job: from the cluster's storage to a location."""

    def __init__(
        self,
        storage: Storage,
        graph: JobGraph,
        target: SavepointLocation,
        header: SavepointHeader,
        artifacts: Mapping[str, str] | None = None,
    ) -> None:
        """`artifacts` maps the checksums of the job's files to their paths in the storage."""
        self._artifacts = artifacts or {}
        self._storage = storage
        self._graph = graph
        self._target = target
        self._header = header
        self._pins = f"{pins_folder(graph.job_id)}/{header.savepoint_id}"

    async def write(self, regions: Sequence[RegionId]) -> SavepointManifest:
        """Write the savepoint and return its manifest; on failure nothing usable is left behind."""
        try:
            failpoint("savepoint.before-pins")
            cuts = [await self._pin(region) for region in regions]
            failpoint("savepoint.after-pins")
            manifest = await self._copy(cuts)
        except (StokerError, asyncio.CancelledError):
            await self._discard(self._target.parent, self._target.name)
            raise
        finally:
            failpoint("savepoint.before-removing-pins")
            await self._discard(self._storage, self._pins)
        return manifest

    async def _pin(self, region: RegionId) -> "PinnedQuery":
        source = checkpoint_folder(self._graph.job_id, region)
        pins = f"{self._pins}/{safe_name(region)}"
        problem = ""
        for _ in range(TRIES):
            try:
                pinned = PinnedQuery(self._storage, region, pins)
                cut = await pinned.pin_from(source)
            except NotFound as error:
                # Spark deleted a file: by now a later batch is committed.
                problem = error.message
                continue
            except CorruptContent as error:
                # Spark never writes a file again, so another try would fail too.
                problem = error.message
                break
            if not cut.gaps:
                return pinned
            problem = "; ".join(cut.gaps)
            await self._discard(self._storage, pins)
        raise SavepointFailed(
            f"the checkpoint of {region} has no complete batch: {problem}; "
            f"stoker checkpoint verify {self._storage.url(source)} shows details",
            region=region,
        )

    async def _copy(self, queries: Sequence["PinnedQuery"]) -> SavepointManifest:
        location, graph = self._target, self._graph
        content = encode_graph(graph)
        await location.parent.write(location.inside(GRAPH), content)
        copied = [await checksum(location.parent, location.inside(GRAPH))]
        for sha256, path in self._artifacts.items():
            copied.append(await self._copy_artifact(sha256, path))
        saved: list[SavedQuery] = []
        for query in queries:
            saved.append(await query.saved_query())
            copied += await query.copy_to(location)
        header = self._header
        manifest = SavepointManifest(
            savepoint_id=header.savepoint_id,
            kind=header.kind,
            job_id=graph.job_id,
            job_name=graph.name,
            created_at=header.at,
            queries=tuple(saved),
            files=tuple(_relative(file, location.name) for file in copied),
            stoker_version=header.stoker_version,
            spark_version=header.spark_version,
            stopped=header.stopped,
            expires=header.expires,
            owner=header.owner,
        )
        # About as long as the encoded manifest: a checksum and a path for each file.
        size = 200 * len(copied)
        content = await off_loop_if_large(size, encode_manifest, manifest)
        if len(content) > LARGEST_MANIFEST:
            raise SavepointFailed(
                f"the savepoint has {len(copied)} files, and its manifest would have more than "
                f"{LARGEST_MANIFEST} bytes: nobody could read it; use fewer shuffle partitions"
            )
        failpoint("savepoint.before-manifest")
        await location.parent.write(location.inside(MANIFEST), content)
        failpoint("savepoint.after-manifest")
        return manifest

    async def _copy_artifact(self, sha256: str, path: str) -> SavedFile:
        location = self._target
        target = location.inside(artifact_path(sha256))
        copied = await copy_file(self._storage, path, location.parent, target)
        # Otherwise damaged content would get a new checksum and look sound.
        if copied.sha256 != sha256:
            raise SavepointFailed(
                f"the job's file {self._storage.url(path)} is damaged (checksum "
                f"{copied.sha256[:12]}…, expected {sha256[:12]}…): no job could start from the "
                "savepoint; restore the file from a backup",
                path=path,
            )
        return copied

    async def _discard(self, storage: Storage, folder: str) -> None:
        try:
            await storage.delete_tree(folder)
        except StokerError as error:
            log.warning("%s is left behind: %s", storage.url(folder), error)


async def _parts(content: bytes, snapshot: str) -> Iterable[str]:
    if len(content) < _MAX_INLINE_BYTES:
        return parts_of_snapshot(content, snapshot)
    # Checking a large archive takes longer than a turn of the loop may.
    return await asyncio.to_thread(parts_of_snapshot, content, snapshot)


class PinnedQuery:
    """The files of one query at one batch, which Spark can no longer delete."""

    def __init__(self, storage: Storage, region: RegionId, pins: str) -> None:
        self._storage = storage
        self._region = region
        self._pins = pins
        self._files: tuple[str, ...] = ()
        self._cut = Cut(batch=None, pending=False, files=(), snapshots=(), gaps=())

    async def pin_from(self, source: str) -> Cut:
        # Read the last commit first: everything it needs was written before it.
        commits = await _names_in(self._storage, source, "commits")
        batch = layout_of(commits).last_commit
        layout = layout_of(await _names_in(self._storage, source))
        cut = cut_at(layout, batch, await self._partitions_at(source, batch))
        await self._storage.pin({f"{source}/{path}": f"{self._pins}/{path}" for path in cut.files})
        if f"commits/{batch}" in cut.files:
            # A machine that crashed leaves empty files, from which nothing can continue.
            check_commit(await self._read(f"commits/{batch}"), f"{source}/commits/{batch}")
        needed: list[str] = []
        for snapshot in cut.snapshots:
            content = await self._storage.read(f"{self._pins}/{snapshot}")
            folder = parts_folder(snapshot)
            needed += [f"{folder}/{name}" for name in await _parts(content, snapshot)]
        parts = with_companions(layout, needed)
        await self._storage.pin({f"{source}/{path}": f"{self._pins}/{path}" for path in parts})
        self._cut = cut
        self._files = tuple(sorted({*cut.files, *parts}))
        return cut

    async def _partitions_at(self, source: str, batch: int | None) -> int | None:
        if batch is None:
            return None
        path = f"{source}/offsets/{batch}"
        return parse_offsets(await self._storage.read(path), path).shuffle_partitions

    async def saved_query(self) -> SavedQuery:
        offsets = await self._offsets(self._cut.batch)
        # A first batch that is only planned already fixes the settings of the state.
        plan = offsets or await self._offsets(0 if self._cut.pending else None)
        has_metadata = "metadata" in self._files
        return SavedQuery(
            region=self._region,
            directory=directory_of(self._region),
            query_id=parse_query_id(await self._read("metadata"), "metadata")
            if has_metadata
            else None,
            batch_id=self._cut.batch,
            pending=self._cut.pending,
            watermark_ms=offsets.watermark_ms if offsets else 0,
            offsets=offsets.sources if offsets else (),
            shuffle_partitions=plan.shuffle_partitions if plan else None,
            state_provider=plan.state_provider if plan else None,
            operators=await self._operators(),
        )

    async def _offsets(self, batch: int | None) -> Offsets | None:
        if batch is None:
            return None
        path = f"offsets/{batch}"
        return parse_offsets(await self._read(path), path)

    async def _operators(self) -> tuple[SavedOperator, ...]:
        latest = latest_descriptions(self._files)
        found = [parse_operator(await self._read(path), path) for path in latest]
        there = layout_of(self._files).partitions
        return tuple(
            SavedOperator(
                id=each.id,
                name=each.name,
                # After a repartition, Spark's own record still has the previous number.
                partitions=len(there.get(each.id, ())) or each.partitions,
                stores=each.stores,
            )
            for each in found
        )

    async def _read(self, path: str) -> bytes:
        return await self._storage.read(f"{self._pins}/{path}")

    async def copy_to(self, location: SavepointLocation) -> list[SavedFile]:
        directory = location.inside(directory_of(self._region))

        async def copy(path: str) -> SavedFile:
            failpoint("savepoint.before-a-copy")
            return await copy_file(
                self._storage, f"{self._pins}/{path}", location.parent, f"{directory}/{path}"
            )

        return await for_all(self._files, copy)


def directory_of(region: str) -> str:
    return f"queries/{safe_name(region)}"


async def _names_in(storage: Storage, folder: str, inside: str = "") -> list[str]:
    below = f"{folder}/{inside}" if inside else folder
    return [path.removeprefix(f"{folder}/") for path in await storage.list(below)]


def _relative(file: SavedFile, directory: str) -> SavedFile:
    return SavedFile(
        path=file.path.removeprefix(f"{directory}/"), size=file.size, sha256=file.sha256
    )
