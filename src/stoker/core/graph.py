"""The job graph: a whole job as plain data, with a version.

Every way of writing a job (Python pipeline, YAML, SQL script) ends here. A graph is validated by
`stoker.core.checks.validation`, cut into regions by `stoker.core.regions`, stored, sent, shown;
nothing in it can run by itself. User functions are opaque bytes that only a runner process loads.
"""

from enum import StrEnum

from stoker.core.ids import BlobKey, JobId
from stoker.core.values import Value

GRAPH_VERSION = 1


class JobType(StrEnum):
    BATCH = "BATCH"
    STREAMING = "STREAMING"


class Environment(Value):
    """Versions at the writing end; a runner refuses functions of a foreign one."""

    python: str
    """major.minor, since pickled code is bound to it."""
    libraries: dict[str, str] = {}
    """Distribution name to version, of the libraries that pickled functions depend on."""


class PythonFunction(Value, tag="python"):
    """A user's function. Loaded only in a runner process."""

    name: str
    payload: bytes
    """Pickled with the cloudpickle that PySpark ships."""
    parameters: tuple[str, ...] = ()
    """Names of its arguments: `spark`, `params`, or names of upstream vertices."""


class Sql(Value, tag="sql"):
    """One query over the inputs, which are temporary views of their vertex names."""

    query: str


class FormatRead(Value, tag="format"):
    format: str
    path: str | None = None
    schema: str | None = None
    """DDL, as in `id LONG, at TIMESTAMP`."""
    options: dict[str, str] = {}
    table: str | None = None


class FormatWrite(Value, tag="format"):
    format: str
    path: str | None = None
    options: dict[str, str] = {}
    table: str | None = None
    partition_by: tuple[str, ...] = ()


class Source(Value, tag="source"):
    name: str
    read: FormatRead | Sql | PythonFunction
    streaming: bool = False
    materialized: bool = False


class Transform(Value, tag="transform"):
    name: str
    inputs: tuple[str, ...]
    compute: Sql | PythonFunction
    materialized: bool = False


class Sink(Value, tag="sink"):
    """Writes one vertex. Its name is unique among all vertices."""

    name: str
    input: str
    write: FormatWrite | PythonFunction
    """A function is `foreachBatch(df, batch_id)` when streaming and `f(df)` in batch."""
    mode: str | None = None
    """Batch: append, overwrite, ignore, errorifexists. Streaming: append, update, complete."""
    trigger: str | None = None
    """Streaming only: `10 seconds`, `available-now`, `once`; None means as fast as possible."""


class SqlScript(Value, tag="script"):
    """Statements run one after the other in one session; the whole script is one vertex."""

    name: str
    statements: tuple[str, ...]


class Program(Value, tag="program"):
    """A whole PySpark script, run as it is; the one vertex of its job."""

    name: str
    script: str
    """Name of the artifact that is the script."""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    """Environment variables that the script finds set."""
    requirements: str | None = None
    """Name of the artifact that lists what must be installed for it."""
    directory: str | None = None
    """Where it was submitted: its working directory, if the task executor has that too."""


Vertex = Source | Transform | Sink | SqlScript | Program


class EngineKind(StrEnum):
    CONNECT = "connect"
    """The shared warm Spark Connect server of the task executor."""
    CLASSIC = "classic"
    """A driver process and a JVM of the job's own."""


class ArtifactKind(StrEnum):
    PYTHON = "python"
    """A .py, .zip or .egg put on the Python path of runner and workers."""
    WHEEL = "wheel"
    FILE = "file"


class Artifact(Value):
    """A file that travels with the job, by content."""

    name: str
    kind: ArtifactKind
    sha256: str
    size: int
    key: BlobKey | None = None
    """Filled in by the blob server at upload."""


class RestartPolicy(Value):
    """How the job's failures are answered; None in the graph means the cluster's default."""

    strategy: str = "none"
    """none, fixed-delay, failure-rate, exponential-delay"""
    attempts: int = 1
    delay_seconds: float = 1.0
    max_delay_seconds: float = 60.0
    multiplier: float = 1.5
    jitter: float = 0.1
    reset_after_seconds: float = 3600.0
    max_failures: int = 1
    """Of failure-rate: how many failures the interval may have."""
    interval_seconds: float = 60.0
    attempts_before_reset: int | None = None
    """Of exponential-delay: restarts within one run of growing waits; None means no limit."""


class ResourceProfile(Value):
    """What a slot offers, or what each slot of a job must offer at least; 0 asks for nothing."""

    cores: float = 0.0
    memory_bytes: int = 0

    def fits_into(self, offered: "ResourceProfile") -> bool:
        return self.cores <= offered.cores and self.memory_bytes <= offered.memory_bytes


DEFAULT_QUEUE = "default"


class Restore(Value):
    """The savepoint or retained checkpoint that a streaming job begins from."""

    path: str
    """Directory or URL of the one that holds its manifest."""
    allow_non_restored_state: bool = False
    """State of queries that this job has not is left behind; otherwise that is refused."""


class JobGraph(Value):
    job_id: JobId
    name: str
    vertices: tuple[Vertex, ...]
    version: int = GRAPH_VERSION
    job_type: JobType = JobType.BATCH
    configuration: dict[str, str] = {}
    """`spark.*` keys for the job's Spark session; others are Stoker options of the job."""
    parameters: dict[str, str] = {}
    artifacts: tuple[Artifact, ...] = ()
    environment: Environment | None = None
    restart: RestartPolicy | None = None
    idempotency_key: str | None = None
    restore: Restore | None = None
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """Higher ones are served first, in their queue and when slots are given out."""
    slots: int | None = None
    """Most slots that the job uses at the same time; None means as many as it has use for."""
    profile: ResourceProfile = ResourceProfile()
    """What each of its slots must offer."""
    engine: EngineKind | None = None
    """None: a program has a driver of its own, everything else runs on the shared server."""
    client_timeout_seconds: float | None = None
    """The job is cancelled when its client has been silent for so long; None: it needs none."""
    engine_reason: str = ""
    """Why this engine, in words, when it was chosen automatically."""

    def vertex(self, name: str) -> Vertex:
        for vertex in self.vertices:
            if vertex.name == name:
                return vertex
        raise KeyError(name)


def inputs_of(vertex: Vertex) -> tuple[str, ...]:
    match vertex:
        case Source() | SqlScript() | Program():
            return ()
        case Transform(inputs=inputs):
            return inputs
        case Sink(input=input_name):
            return (input_name,)


def engine_of(graph: JobGraph) -> EngineKind:
    if graph.engine is not None:
        return graph.engine
    programs = any(isinstance(vertex, Program) for vertex in graph.vertices)
    return EngineKind.CLASSIC if programs else EngineKind.CONNECT


def is_materialized(vertex: Vertex) -> bool:
    return isinstance(vertex, Source | Transform) and vertex.materialized
