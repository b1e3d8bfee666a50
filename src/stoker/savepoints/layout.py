"""The layout of a streaming query's checkpoint, and which of its files a batch needs.

    metadata                         the id of the query
    offsets/<batch>                  written before the batch: what it reads
    commits/<batch>                  written after the batch: it is done
    sources/<source>/<n>[.compact]   what a source has seen
    state/<operator>/<partition>/[<store>/]
        <v>[_<id>].changelog|delta   changes that lead to version v
        <v>[_<id>].zip|snapshot      version v as a whole; batch b leaves version b + 1
        SSTs/, _metadata/            what snapshots consist of; schemas
    state/<operator>/_metadata/      what the operator is: metadata, or v2/<batch>

A checksum file `.<name>.crc` may stand beside each file and always travels with it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_LOG = re.compile(r"(offsets|commits)/(\d+)")
_SOURCE = re.compile(r"sources/.+/(\d+)(\.compact)?")
_STATE = re.compile(
    r"(?P<store>state/\d+/\d+(?:/[^/]+)?)/(?P<version>\d+)(?:_[^/.]+)?\."
    r"(?P<kind>changelog|delta|zip|snapshot)"
)
_SST = re.compile(r"state/\d+/\d+(?:/[^/]+)?/SSTs/[^/]+")
_PARTITION = re.compile(r"state/(\d+)/(\d+)/")
_OPERATOR = re.compile(r"state/(\d+)/_metadata/(?:metadata|v2/(\d+))")

WHOLE = frozenset({"zip", "snapshot"})
"""Kinds of state files that hold a whole version; the others hold changes."""


@dataclass(frozen=True, kw_only=True)
class StateFile:
    path: str
    version: int
    kind: str


@dataclass(frozen=True, kw_only=True)
class CheckpointLayout:
    """The files of one query's checkpoint by purpose."""

    has_metadata: bool = False
    offsets: Mapping[int, str] = field(default_factory=dict)
    commits: Mapping[int, str] = field(default_factory=dict)
    sources: tuple[tuple[int, str], ...] = ()
    state: Mapping[str, tuple[StateFile, ...]] = field(default_factory=dict)
    """State files by store."""
    others: tuple[str, ...] = ()
    companions: frozenset[str] = frozenset()
    """Checksum files."""

    @property
    def last_commit(self) -> int | None:
        return max(self.commits, default=None)

    @property
    def partitions(self) -> Mapping[int, frozenset[int]]:
        """Numbers of the partitions of each stateful operator."""
        found: dict[int, set[int]] = {}
        for store in self.state:
            if match := _PARTITION.match(f"{store}/"):
                found.setdefault(int(match[1]), set()).add(int(match[2]))
        return {operator: frozenset(numbers) for operator, numbers in found.items()}


def layout_of(paths: Iterable[str]) -> CheckpointLayout:
    """Sort paths relative to the checkpoint's directory.

    Unfinished files are left out, and so are SST files: only a snapshot tells which it needs.
    """
    logs: dict[str, dict[int, str]] = {"offsets": {}, "commits": {}}
    sources: list[tuple[int, str]] = []
    state: dict[str, list[StateFile]] = {}
    others: list[str] = []
    companions: set[str] = set()
    for path in sorted(paths):
        name = path.rpartition("/")[2]
        if name.startswith("."):
            if name.endswith(".crc") and not name.endswith(".tmp.crc"):
                companions.add(path)
        elif match := _LOG.fullmatch(path):
            logs[match[1]][int(match[2])] = path
        elif match := _SOURCE.fullmatch(path):
            sources.append((int(match[1]), path))
        elif match := _STATE.fullmatch(path):
            version, kind = int(match["version"]), match["kind"]
            file = StateFile(path=path, version=version, kind=kind)
            state.setdefault(match["store"], []).append(file)
        elif not _SST.fullmatch(path):
            others.append(path)
    return CheckpointLayout(
        has_metadata="metadata" in others,
        offsets=logs["offsets"],
        commits=logs["commits"],
        sources=tuple(sources),
        state={store: tuple(files) for store, files in state.items()},
        others=tuple(others),
        companions=frozenset(companions),
    )


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The part of a checkpoint that represents the moment after a batch was committed."""

    batch: int | None
    """None: no batch is committed yet, so the query starts from the beginning."""
    pending: bool
    """Whether the next batch is already planned; it is then repeated exactly as planned."""
    files: tuple[str, ...]
    snapshots: tuple[str, ...]
    """The RocksDB snapshots that stores start from; each names the SST files that it needs."""
    gaps: tuple[str, ...]
    """A description of each missing part; with any gap the cut is unusable."""


def cut_at(layout: CheckpointLayout, batch: int | None, partitions: int | None = None) -> Cut:
    """The files that a query needs to continue after this batch, except SST files of snapshots.

    `partitions` is the number of partitions that the query has at this batch. A repartition into
    fewer leaves the files of the others behind, which are no longer read.
    """
    pending = (0 if batch is None else batch + 1) in layout.offsets
    limit = (-1 if batch is None else batch) + (1 if pending else 0)
    files = list(layout.others)
    files += [path for number, path in layout.offsets.items() if number <= limit]
    if batch is not None:
        files += [path for number, path in layout.commits.items() if number <= batch]
    files += [path for number, path in layout.sources if number <= limit]
    snapshots: list[str] = []
    gaps = list(_log_gaps(layout, batch))
    for store, state in layout.state.items():
        if partitions is not None and _partition_of(store) >= partitions:
            continue
        chain, missing = _chain(state, 0 if batch is None else batch + 1)
        files += [file.path for file in chain]
        snapshots += [file.path for file in chain if file.kind == "zip"]
        gaps += [f"{store} lacks {words}" for words in missing]
    return Cut(
        batch=batch,
        pending=pending,
        files=with_companions(layout, files),
        snapshots=tuple(snapshots),
        gaps=tuple(gaps),
    )


def is_operator_file(path: str) -> bool:
    """Whether the file describes a stateful operator, as of any batch."""
    return operator_of(path) is not None


def operator_of(path: str) -> int | None:
    """Number of the operator that the file describes; None for a file of another kind."""
    match = _OPERATOR.fullmatch(path)
    return int(match[1]) if match else None


def latest_descriptions(paths: Iterable[str]) -> list[str]:
    """For each stateful operator the file that describes it as of the latest batch."""
    latest: dict[int, tuple[int, str]] = {}
    for path in paths:
        if match := _OPERATOR.fullmatch(path):
            number, found = int(match[1]), (int(match[2] or -1), path)
            latest[number] = max(found, latest.get(number, found))
    return [path for _, (_, path) in sorted(latest.items())]


def _partition_of(store: str) -> int:
    match = _PARTITION.match(f"{store}/")
    return int(match[2]) if match else 0


def with_companions(layout: CheckpointLayout, paths: Iterable[str]) -> tuple[str, ...]:
    chosen = list(paths)
    beside = [checksum_path(path) for path in chosen]
    return tuple(sorted({*chosen, *(path for path in beside if path in layout.companions)}))


def parts_folder(snapshot: str) -> str:
    """Folder with the SST files of a snapshot."""
    return f"{snapshot.rpartition('/')[0]}/SSTs"


def checksum_path(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def _log_gaps(layout: CheckpointLayout, batch: int | None) -> Iterable[str]:
    if batch is None:
        return
    if not layout.has_metadata:
        yield "the file metadata is missing, which holds the query's id"
    if batch not in layout.commits:
        yield f"commits/{batch} is missing"
    if batch not in layout.offsets:
        yield f"offsets/{batch} is missing"


def _chain(state: tuple[StateFile, ...], version: int) -> tuple[list[StateFile], list[str]]:
    """The newest snapshot up to this version, the changes after it, and descriptions of gaps."""
    if version == 0:
        return [], []
    wholes = [file.version for file in state if file.kind in WHOLE and file.version <= version]
    base = max(wholes, default=0)
    chain = [
        file
        for file in state
        if (file.kind in WHOLE and file.version == base)
        or (file.kind not in WHOLE and base < file.version <= version)
    ]
    there = {file.version for file in chain}
    missing = [number for number in range(base + 1, version + 1) if number not in there]
    return chain, [f"the changes that lead to version {number}" for number in missing]
