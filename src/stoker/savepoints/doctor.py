"""What is wrong with a checkpoint, and which batch is the last good one.

Pure: the caller (`examination.py`) reads the files, this module decides what they mean. A batch is
good if every file that a query needs to continue after it is present and intact.
"""

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from stoker.core.errors import CorruptContent
from stoker.savepoints.layout import (
    CheckpointLayout,
    Cut,
    cut_at,
    is_operator_file,
    layout_of,
    operator_of,
    parts_folder,
    with_companions,
)
from stoker.savepoints.logs import (
    check_commit,
    parse_offsets,
    parse_operator,
    parse_query_id,
    parts_of_snapshot,
)

_CRC_HEADER = struct.Struct(">4si")
_CRC_MAGIC = b"crc\0"
_LARGEST_READ = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Damage:
    file: str
    message: str

    def __str__(self) -> str:
        return self.message if self.file in self.message else f"{self.file}: {self.message}"


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    query: str
    last_commit: int | None
    last_good: int | None
    """None if a query can continue from none of the committed batches."""
    damages: tuple[Damage, ...]
    files: tuple[str, ...]
    """Intact files that the last good batch needs, to be copied with it."""

    @property
    def is_sound(self) -> bool:
        return not self.damages and self.last_good == self.last_commit


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The files of a checkpoint's directory, as far as the diagnosis needs them."""

    paths: Sequence[str]
    contents: Mapping[str, bytes]
    """Content of the files that `needs_content` accepts."""
    damaged: Mapping[str, str]
    """Files whose content differs from what was written, with the reason."""
    sizes: Mapping[str, int]


def needs_content(path: str) -> bool:
    """Whether the diagnosis needs the content of the file."""
    folder, _, name = path.rpartition("/")
    if name.startswith("."):
        return False
    return (
        path == "metadata"
        or folder in ("offsets", "commits")
        or name.endswith(".zip")
        or is_operator_file(path)
    )


def diagnose(query: str, evidence: Evidence) -> Diagnosis:
    layout = layout_of(evidence.paths)
    damages = {
        path: Damage(file=path, message=message) for path, message in evidence.damaged.items()
    }
    parts = dict(_read_contents(evidence, damages))
    if not layout.commits and not layout.offsets and not layout.has_metadata:
        foreign = Damage(
            file="",
            message="this is not the checkpoint of a streaming query: it has neither metadata nor "
            "offsets nor commits",
        )
        damages = {"": foreign}
    missing = _missing_partitions(layout, evidence)
    last_good: int | None = None
    files: tuple[str, ...] = ()
    for batch in sorted(layout.commits, reverse=True):
        cut = cut_at(layout, batch, _partitions_at(batch, evidence))
        problems = _problems(layout, cut, parts, evidence, damages)
        if not problems and not missing:
            last_good, files = batch, _files(layout, cut, parts)
            break
        for problem in problems:
            damages.setdefault(problem.file, problem)
    damages |= {
        damage.file: damage for damage in (*missing, *_missing_descriptions(layout, evidence))
    }
    return Diagnosis(
        query=query,
        last_commit=layout.last_commit,
        last_good=last_good,
        damages=tuple(damages[name] for name in sorted(damages)),
        files=tuple(path for path in files if path not in damages),
    )


def _read_contents(
    evidence: Evidence, damages: dict[str, Damage]
) -> list[tuple[str, dict[str, int]]]:
    """Add unreadable files to `damages`; return the parts of each readable snapshot."""
    parts: list[tuple[str, dict[str, int]]] = []
    for path, content in evidence.contents.items():
        try:
            if path.endswith(".zip"):
                parts.append((path, parts_of_snapshot(content, path)))
            elif path == "metadata":
                parse_query_id(content, path)
            elif path.startswith("offsets/"):
                parse_offsets(content, path)
            elif path.startswith("commits/"):
                check_commit(content, path)
            else:
                parse_operator(content, path)
        except CorruptContent as error:
            damages[path] = Damage(file=path, message=error.message)
    return parts


def _problems(
    layout: CheckpointLayout,
    cut: Cut,
    parts: Mapping[str, Mapping[str, int]],
    evidence: Evidence,
    damages: Mapping[str, Damage],
) -> list[Damage]:
    """The reasons why no query can continue from this cut; empty if one can."""
    # The plan of a batch that was not committed is not needed.
    needed = [path for path in cut.files if not _is_plan_of_next(path, cut)]
    found = [damages[path] for path in needed if path in damages]
    found += [Damage(file=gap, message=gap) for gap in cut.gaps]
    for snapshot in cut.snapshots:
        for name, size in parts.get(snapshot, {}).items():
            path = f"{parts_folder(snapshot)}/{name}"
            if path in damages:
                found.append(damages[path])
            elif path not in evidence.sizes:
                found.append(Damage(file=path, message=f"it is missing, and {snapshot} needs it"))
            elif evidence.sizes[path] != size:
                message = f"it has {evidence.sizes[path]} bytes instead of {size}"
                found.append(Damage(file=path, message=message))
    return found


def _is_plan_of_next(path: str, cut: Cut) -> bool:
    if cut.batch is None:
        return False
    name = path.removeprefix("offsets/").removeprefix(".").removesuffix(".crc")
    return path.startswith("offsets/") and name == str(cut.batch + 1)


def _files(
    layout: CheckpointLayout, cut: Cut, parts: Mapping[str, Mapping[str, int]]
) -> tuple[str, ...]:
    needed = [
        f"{parts_folder(snapshot)}/{name}" for snapshot in cut.snapshots for name in parts[snapshot]
    ]
    return tuple(sorted({*cut.files, *with_companions(layout, needed)}))


def _partitions_at(batch: int | None, evidence: Evidence) -> int | None:
    """Shuffle partitions with which the batch was planned; None if unknown."""
    path = f"offsets/{batch}"
    try:
        return parse_offsets(evidence.contents.get(path, b""), path).shuffle_partitions
    except CorruptContent:
        return None


def _missing_descriptions(layout: CheckpointLayout, evidence: Evidence) -> list[Damage]:
    """Operators with state whose description is missing."""
    described = {operator_of(path) for path in evidence.paths}
    damages = []
    for number in sorted(set(layout.partitions) - described):
        path = f"state/{number}/_metadata/metadata"
        message = (
            f"{path} is missing: it says which operator the state in state/{number} belongs to. "
            "Spark continues and writes it again, but does not notice if the query now has another "
            "operator there; until then the state can neither be shown nor repartitioned. "
            "Start the query unchanged, once"
        )
        damages.append(Damage(file=path, message=message))
    return damages


def _missing_partitions(layout: CheckpointLayout, evidence: Evidence) -> list[Damage]:
    damages = []
    for path, content in evidence.contents.items():
        if not is_operator_file(path):
            continue
        try:
            operator = parse_operator(content, path)
        except CorruptContent:
            continue
        there = layout.partitions.get(operator.id, frozenset())
        # After a repartition there may be fewer than Spark's earlier record says.
        last = _partitions_at(layout.last_commit, evidence)
        expected = operator.partitions if last is None else min(operator.partitions, last)
        for number in sorted(set(range(expected)) - there):
            folder = f"state/{operator.id}/{number}"
            message = f"{folder} is missing: the state of partition {number} of {operator.name}"
            damages.append(Damage(file=folder, message=message))
    return damages


def matches_checksums(file: BinaryIO, checksums: bytes) -> bool:
    """Whether a file has the checksums that Hadoop stored beside it; unreadable ones tell nothing.

    A checksum file names the size of a piece, and has one checksum for each piece of the file.
    """
    magic, size = _CRC_HEADER.unpack_from(checksums.ljust(_CRC_HEADER.size, b"\0"))
    if magic != _CRC_MAGIC or size <= 0:
        return True
    expected = checksums[_CRC_HEADER.size :]
    found = bytearray()
    while piece := file.read(min(size, _LARGEST_READ)):
        checksum = zlib.crc32(piece)
        left = size - len(piece)
        while left and (more := file.read(min(left, _LARGEST_READ))):
            checksum = zlib.crc32(more, checksum)
            left -= len(more)
        found += checksum.to_bytes(4, "big")
    return found == expected
