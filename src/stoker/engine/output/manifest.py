"""Manifests of directories that Spark has written: make one, and compare it with the files."""

import zlib
from collections.abc import Iterable

import pyarrow
from pyarrow import parquet

from stoker.core.ids import AttemptId
from stoker.core.manifests import Manifest, ResultFile
from stoker.engine.output.files import OutputFiles

_CHUNK = 1 << 20


def manifest_of(
    files: OutputFiles, directory: str, attempt: AttemptId, *, checksums: bool
) -> Manifest:
    return Manifest(
        attempt=attempt,
        directory=directory,
        files=tuple(
            ResultFile(
                path=path,
                size=size,
                checksum=_checksum(files, f"{directory}/{path}") if checksums else None,
                rows=_rows(files, f"{directory}/{path}"),
            )
            for path, size in sorted(files.sizes(directory).items())
        ),
    )


def differences_from(files: OutputFiles, manifest: Manifest, *, checksums: bool) -> Iterable[str]:
    """Describe each difference from the manifest; nothing if the directory is as it was written."""
    sizes = files.sizes(manifest.directory)
    for file in manifest.files:
        where = f"{manifest.directory}/{file.path}"
        size = sizes.get(file.path)
        if size is None:
            yield f"{where} is missing"
        elif size != file.size:
            yield f"{where} has {size} bytes and was written with {file.size}"
        elif checksums and file.checksum and _checksum(files, where) != file.checksum:
            yield f"{where} has other content than was written"


def _checksum(files: OutputFiles, path: str) -> str:
    value = 0
    with files.open(path) as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return f"{value:08x}"


def _rows(files: OutputFiles, path: str) -> int | None:
    """Rows of a Parquet file, read from its footer; None for other formats."""
    if not path.endswith(".parquet"):
        return None
    with files.open(path) as file:
        try:
            return int(parquet.read_metadata(file).num_rows)
        except pyarrow.ArrowInvalid:
            return None
