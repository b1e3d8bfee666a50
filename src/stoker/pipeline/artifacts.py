"""The files that travel with a job: checked, and described by name, size and hash.

Wheels are opened and their platform is compared, because otherwise pip would refuse a damaged or
unsuitable wheel only at the task executor, when the job has already started.
"""

import hashlib
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from stoker.core.faults import Fault
from stoker.core.graph import Artifact, ArtifactKind
from stoker.pipeline.drafts import JobDraft

_PYTHON_SUFFIXES = (".py", ".zip", ".egg")


@dataclass(frozen=True, kw_only=True)
class DescribedFiles:
    artifacts: tuple[tuple[Artifact, Path], ...]
    faults: tuple[Fault, ...]


def describe_files(draft: JobDraft, base_directory: Path) -> DescribedFiles:
    artifacts: list[tuple[Artifact, Path]] = []
    faults: list[Fault] = []
    for kind, given in _all_files(draft):
        path = (base_directory / given).absolute()
        try:
            fault = _file_fault(kind, path)
            if fault is None:
                artifacts.append((_artifact(kind, path), path))
        except OSError as error:
            fault = Fault(
                f"{kind} '{path}'",
                f"the file cannot be read: {error.strerror or error}",
                "make it readable",
            )
        if fault is not None:
            faults.append(fault)
    return DescribedFiles(artifacts=tuple(artifacts), faults=tuple(faults))


def _all_files(draft: JobDraft) -> Iterator[tuple[ArtifactKind, Path]]:
    for kind, paths in (
        (ArtifactKind.PYTHON, draft.python_files),
        (ArtifactKind.WHEEL, draft.wheels),
        (ArtifactKind.FILE, draft.files),
    ):
        yield from ((kind, path) for path in paths)


def _file_fault(kind: ArtifactKind, path: Path) -> Fault | None:
    place = f"{kind} '{path}'"
    if not path.exists():
        return Fault(place, "there is no such file", "correct the path")
    if path.is_dir():
        return Fault(place, "this is a directory", "name its files, or make a zip of it")
    if not path.is_file():
        return Fault(place, "this is not a regular file", "name a file")
    if kind is ArtifactKind.PYTHON and path.suffix not in _PYTHON_SUFFIXES:
        return Fault(
            place,
            "Python cannot import from this file",
            f"give a {', '.join(_PYTHON_SUFFIXES)}; wheels go to wheels=, others to files=",
        )
    return wheel_fault(path, place) if kind is ArtifactKind.WHEEL else None


def _artifact(kind: ArtifactKind, path: Path) -> Artifact:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256")
    return Artifact(name=path.name, kind=kind, sha256=digest.hexdigest(), size=path.stat().st_size)


def wheel_fault(path: Path, place: str) -> Fault | None:
    try:
        _, _, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename:
        return Fault(
            place,
            "this is not the name of a wheel",
            "a wheel is called like example-1.0-py3-none-any.whl",
        )
    here = list(sys_tags())
    if tags.isdisjoint(here):
        wanted = ", ".join(sorted(str(tag) for tag in tags))
        return Fault(
            place,
            f"the wheel is for another platform or Python: {wanted}",
            f"get the one for {here[0]}, or one that ends in -none-any.whl",
        )
    return _content_fault(path, place)


def distributions_in(wheels: Iterable[Path]) -> frozenset[str]:
    """Canonical names of the distributions that the wheels install."""
    names = set()
    for wheel in wheels:
        with suppress(InvalidWheelFilename):
            names.add(str(parse_wheel_filename(wheel.name)[0]))
    return frozenset(names)


def _content_fault(path: Path, place: str) -> Fault | None:
    remedy = "build or download it again"
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
            names = archive.namelist()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        return Fault(place, f"the wheel is damaged: {error}", remedy)
    if damaged is not None:
        return Fault(place, f"the wheel is damaged: bad checksum of {damaged}", remedy)
    if not any(name.endswith(".dist-info/METADATA") for name in names):
        return Fault(place, "the file is a zip, but not a wheel: it has no METADATA", remedy)
    return None
