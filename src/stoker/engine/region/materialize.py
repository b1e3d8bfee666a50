"""Results of materialized vertices: written by one region, read by others.

A result may be read only if it is complete, and an attempt may die while it writes. Therefore each
attempt writes into its own directory, and a manifest, created once and after the content, decides
which directory is the result. Nothing is moved, so this is safe on every file system.
"""

import asyncio
from collections.abc import Callable

from stoker.core.errors import CorruptContent, KeyExists, NotFound, StokerError
from stoker.core.failpoints import failpoint
from stoker.core.ids import AttemptId, safe_name
from stoker.core.manifests import Manifest
from stoker.engine.output.files import OutputFiles, files_of
from stoker.engine.output.manifest import differences_from, manifest_of
from stoker.engine.region.locations import directory_below
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.storage.open import open_storage

_MANIFEST = "manifest.json"


class ResultDamaged(StokerError):
    """The files of a finished region are missing or changed."""

    def __init__(self, vertex: str, faults: list[str]) -> None:
        super().__init__(
            f"the materialized result of {vertex} is damaged: {'; '.join(faults)}; "
            f"{vertex} is computed again",
            vertex=vertex,
        )
        self.labels = {"damaged-result": vertex}


class _ManifestRecord(StoredRecord, frozen=True, kw_only=True):
    manifest: Manifest


class MaterializedResults:
    def __init__(self, root: str) -> None:
        self._root = root
        self._storage = open_storage(root)

    def reuse(self, vertex: str) -> Manifest | None:
        """The recorded result if it is intact to the last byte; otherwise the record is deleted."""
        try:
            manifest = self._recorded(vertex)
        except CorruptContent:
            asyncio.run(self._storage.delete(_manifest_path(vertex)))
            return None
        if manifest is None:
            return None
        if any(differences_from(_files(manifest.directory), manifest, checksums=True)):
            asyncio.run(self._storage.delete(_manifest_path(vertex)))
            return None
        return manifest

    def write(self, vertex: str, attempt: AttemptId, write: Callable[[str], None]) -> Manifest:
        place = directory_below(self._root, f"{safe_name(vertex)}/{attempt}")
        failpoint("materialized.before-content")
        write(place.url)
        manifest = manifest_of(_files(place.url), place.url, attempt, checksums=True)
        failpoint("materialized.before-manifest")
        recorded = self._record(vertex, manifest)
        failpoint("materialized.after-manifest")
        return recorded

    def directory_of(self, vertex: str) -> str:
        """The directory of the result; raises ResultDamaged if files are missing or cut short."""
        try:
            manifest = self._recorded(vertex)
        except CorruptContent as error:
            raise ResultDamaged(vertex, [error.message]) from error
        if manifest is None:
            raise ResultDamaged(vertex, [f"{self._storage.url(safe_name(vertex))} has no manifest"])
        faults = list(differences_from(_files(manifest.directory), manifest, checksums=False))
        if faults:
            raise ResultDamaged(vertex, faults)
        return manifest.directory

    def _record(self, vertex: str, manifest: Manifest) -> Manifest:
        try:
            asyncio.run(
                self._storage.create(
                    _manifest_path(vertex), encode(_ManifestRecord(manifest=manifest))
                )
            )
        except KeyExists:
            return self._recorded(vertex) or manifest
        return manifest

    def _recorded(self, vertex: str) -> Manifest | None:
        path = _manifest_path(vertex)
        try:
            content = asyncio.run(self._storage.read(path))
        except NotFound:
            return None
        return decode_record(content, _ManifestRecord, path).manifest


def _files(directory: str) -> OutputFiles:
    files = files_of(directory)
    if files is None:
        raise NotFound(
            f"{directory} cannot be reached from this machine; install the fsspec driver for it"
        )
    return files


def _manifest_path(vertex: str) -> str:
    return f"{safe_name(vertex)}/{_MANIFEST}"
