"""The manifest of a savepoint: the list of its queries and files.

The manifest is written last. A directory without a manifest is not a savepoint.
"""

import msgspec

from stoker.api.shape import Answer
from stoker.core.checkpoints import SavepointSummary
from stoker.core.errors import UnusableSavepoint
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId, RegionId
from stoker.core.values import Millis, Value, decode_json

MANIFEST = "manifest.json"
GRAPH = "graph.json"
MANIFEST_VERSION = 1
LARGEST_MANIFEST = 32 * 1024 * 1024
"""In bytes: enough for 150,000 files."""
LARGEST_GRAPH = 128 * 1024 * 1024
"""In bytes. A master may accept larger graphs than by default."""


class SavedFile(Value):
    path: str
    """Relative to the savepoint's directory."""
    size: int
    sha256: str


class SavedOperator(Value):
    """A stateful operator of a query."""

    id: int
    name: str
    partitions: int
    stores: tuple[str, ...] = ()


class SavedQuery(Value):
    region: RegionId
    directory: str
    query_id: str | None = None
    batch_id: int | None = None
    """The last committed batch; None if none was committed yet."""
    pending: bool = False
    """Whether the next batch was planned; it is then repeated exactly as planned."""
    watermark_ms: int = 0
    offsets: tuple[str | None, ...] = ()
    """Position of each source after the batch, in Spark's own format."""
    shuffle_partitions: int | None = None
    state_provider: str | None = None
    operators: tuple[SavedOperator, ...] = ()


class SavepointManifest(Value):
    savepoint_id: str
    kind: str
    """`savepoint`, or `checkpoint` for one retained when its job ended."""
    job_id: JobId
    job_name: str
    created_at: Millis
    queries: tuple[SavedQuery, ...]
    files: tuple[SavedFile, ...]
    """All files except the manifest itself."""
    version: int = MANIFEST_VERSION
    stoker_version: str = ""
    spark_version: str = ""
    stopped: bool = False
    """Whether all queries had stopped at a batch boundary: a planned batch then had no effect."""
    expires: bool = False
    """Whether the cluster made it unasked, and removes it when it is one of too many or too old."""
    owner: str = ""
    """Owner of the job; empty if that is not known."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def batches(self) -> dict[str, int]:
        return {q.region: q.batch_id for q in self.queries if q.batch_id is not None}

    def query(self, region: str) -> SavedQuery | None:
        return next((query for query in self.queries if query.region == region), None)

    def files_of(self, query: SavedQuery) -> tuple[SavedFile, ...]:
        return tuple(file for file in self.files if file.path.startswith(f"{query.directory}/"))

    def summary(self, path: str) -> SavepointSummary:
        return SavepointSummary(
            path=path,
            job_id=self.job_id,
            job_name=self.job_name,
            created_at=self.created_at,
            kind=self.kind,
            size_bytes=self.size,
            batches=self.batches,
            expires=self.expires,
            owner=self.owner,
        )


def artifact_path(sha256: str) -> str:
    return f"artifacts/{sha256}"


class _Version(Value):
    version: int


class _UndecodedFiles(SavepointManifest):
    """One call that decoded all files would let no other thread run meanwhile."""

    files: tuple[msgspec.Raw, ...]  # type: ignore[assignment]


def encode_manifest(manifest: SavepointManifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def decode_manifest(content: bytes, path: str) -> SavepointManifest:
    """Takes part of a second for the largest. Other threads can run between the files."""
    try:
        version = decode_json(content, _Version).version
        if version > MANIFEST_VERSION:
            raise UnusableSavepoint(
                path,
                f"its manifest has version {version}, and this Stoker reads up to "
                f"{MANIFEST_VERSION}; use the Stoker that wrote it, or a later one",
            )
        head = decode_json(content, _UndecodedFiles)
        files = tuple(decode_json(bytes(file), SavedFile) for file in head.files)
        fields = {name: getattr(head, name) for name in SavepointManifest.__struct_fields__}
        manifest = SavepointManifest(**fields | {"files": files})
    except msgspec.DecodeError as error:
        raise UnusableSavepoint(
            path, f"its manifest is cut off or not a manifest ({error}); use another savepoint"
        ) from error
    outside = [file.path for file in manifest.files if not _is_inside(file.path)]
    if outside:
        raise UnusableSavepoint(
            path, f"its manifest names a file outside the savepoint: {outside[0]!r}"
        )
    return manifest


def encode_graph(graph: JobGraph) -> bytes:
    return msgspec.json.encode(graph)


def decode_graph(content: bytes, path: str) -> JobGraph:
    try:
        return decode_json(content, JobGraph)
    except msgspec.DecodeError as error:
        raise UnusableSavepoint(path, f"its {GRAPH} cannot be read: {error}") from error


def _is_inside(path: str) -> bool:
    return not path.startswith("/") and all(part not in ("", ".", "..") for part in path.split("/"))


class SavepointView(Answer, frozen=True, kw_only=True):
    """GET /savepoints/show"""

    path: str
    size_bytes: int
    manifest: SavepointManifest
