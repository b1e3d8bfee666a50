"""The job graph: a whole job as plain data, with a version.

Every way of writing a job (Python pipeline, YAML, SQL script, program) produces a graph. The graph
is validated by `stoker.core.checks.validation`, cut into regions by `stoker.core.regions`, stored,
sent and shown. Masters and task executors never execute a user's code: functions are opaque bytes,
which only the process of a task (a runner or a classic driver) loads.
"""

from enum import StrEnum

from stoker.core.ids import BlobKey, JobId
from stoker.core.values import Value

GRAPH_VERSION = 1


class JobType(StrEnum):
    BATCH = "BATCH"
    STREAMING = "STREAMING"


class Environment(Value):
    """Versions where the job was written.

    A task's process with another Python, or another major version of a library, refuses to load
    the functions.
    """

    python: str
    """major.minor: pickled code loads only in the same one."""
    libraries: dict[str, str] = {}
    """Distribution name to version, for the libraries that pickled functions depend on."""


class PythonFunction(Value, tag="python"):
    """A function of the user, which only the process of a task loads."""

    name: str
    payload: bytes
    """Pickled with the cloudpickle that PySpark ships."""
    parameters: tuple[str, ...] = ()
    """Names of its parameters: `spark`, `params` or an upstream vertex; any names for a sink."""


class Sql(Value, tag="sql"):
    """One query over the inputs, which are temporary views named like their vertices."""

    query: str


class FormatRead(Value, tag="format"):
    format: str
    path: str | None = None
    schema: str | None = None
    """DDL, as in `id LONG, at TIMESTAMP`."""
    options: dict[str, str] = {}
    table: str | None = None
    was_relative: bool = False
    """The path was relative, and has become absolute in the directory of the caller."""


class FormatWrite(Value, tag="format"):
    format: str
    path: str | None = None
    options: dict[str, str] = {}
    table: str | None = None
    partition_by: tuple[str, ...] = ()
    was_relative: bool = False
    """The path was relative, and has become absolute in the directory of the caller."""


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
    """Statements that run one after the other in one session; the whole script is one vertex."""

    name: str
    statements: tuple[str, ...]
    file: str = ""
    """Name of the file, for error messages; empty if it is not known."""
    lines: tuple[int, ...] = ()
    """Where each statement begins in the file; empty if it is not known."""


class Program(Value, tag="program"):
    """A whole PySpark script that runs as it is; the only vertex of its job."""

    name: str
    script: str
    """Name of the artifact that is the script."""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    """Environment variables of the script."""
    requirements: str | None = None
    """Name of the artifact that lists the packages to install for it."""
    directory: str | None = None
    """Not written any more: the graph names its caller's directory. Read in older graphs."""
    path: str | None = None
    """Path of the script as it was submitted, by which its tracebacks name it."""


Vertex = Source | Transform | Sink | SqlScript | Program


class EngineKind(StrEnum):
    CONNECT = "connect"
    """The shared warm Spark Connect server of the task executor."""
    CLASSIC = "classic"
    """A driver process with a JVM for this job alone."""


class ArtifactKind(StrEnum):
    PYTHON = "python"
    """A .py, .zip or .egg that goes on the Python path of runner and workers."""
    WHEEL = "wheel"
    FILE = "file"


class Artifact(Value):
    """A file that belongs to the job, identified by its content."""

    name: str
    kind: ArtifactKind
    sha256: str
    size: int
    key: BlobKey | None = None
    """None until the blob server has stored it."""


class RestartPolicy(Value):
    """Whether and when a failed region runs again; None in the graph: the cluster's default."""

    strategy: str = "none"
    """none, fixed-delay, failure-rate, exponential-delay"""
    attempts: int = 1
    """fixed-delay: most restarts."""
    delay_seconds: float = 1.0
    """Before each restart; exponential-delay: before the first."""
    max_delay_seconds: float = 60.0
    multiplier: float = 1.5
    jitter: float = 0.1
    reset_after_seconds: float = 3600.0
    max_failures: int = 1
    """failure-rate: number of failures that are tolerated within the interval."""
    interval_seconds: float = 60.0
    attempts_before_reset: int | None = None
    """exponential-delay: most restarts before the delay is reset; None means no limit."""


class ResourceProfile(Value):
    """What a slot offers, or what a job requires of each slot; 0 requires nothing."""

    cores: float = 0.0
    memory_bytes: int = 0

    def fits_into(self, offered: "ResourceProfile") -> bool:
        return self.cores <= offered.cores and self.memory_bytes <= offered.memory_bytes


DEFAULT_QUEUE = "default"


class Restore(Value):
    """The savepoint or retained checkpoint that a streaming job starts from."""

    path: str
    """Directory or URL that holds its manifest."""
    allow_non_restored_state: bool = False
    """Whether saved state that no query of this job reads may be dropped; else it is an error."""
    by_cluster: bool = False
    """Whether the cluster chose the path, because the job continues an output."""


class CallerDirectory(Value):
    """The directory in which a job was submitted: what its relative paths refer to."""

    path: str
    machine: str = ""
    """Identifies the machine; empty in jobs that say only the path."""
    inode: int = 0
    """Identifies the directory on its file system, which several machines may have mounted."""


class JobGraph(Value):
    job_id: JobId
    name: str
    vertices: tuple[Vertex, ...]
    version: int = GRAPH_VERSION
    job_type: JobType = JobType.BATCH
    configuration: dict[str, str] = {}
    """`spark.*` keys are for the job's Spark session; other keys are Stoker options of the job."""
    parameters: dict[str, str] = {}
    artifacts: tuple[Artifact, ...] = ()
    environment: Environment | None = None
    restart: RestartPolicy | None = None
    idempotency_key: str | None = None
    restore: Restore | None = None
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """A job of higher priority goes first, in its queue and in the assignment of slots."""
    slots: int | None = None
    """Most slots that the job uses at the same time; None means as many as it can use."""
    profile: ResourceProfile = ResourceProfile()
    """What each of its slots must offer."""
    engine: EngineKind | None = None
    """None: a program gets its own driver, any other job runs on the shared server."""
    client_timeout_seconds: float | None = None
    """The job is cancelled when its client is silent for this long; None: it needs no client."""
    engine_reason: str = ""
    """Why this engine was chosen, in words; empty when the user chose it."""
    caller: CallerDirectory | None = None
    """Where it was submitted: what its relative paths refer to. None: it may have none."""

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


def function_of(vertex: Vertex) -> PythonFunction | None:
    match vertex:
        case (
            Source(read=PythonFunction() as function)
            | Transform(compute=PythonFunction() as function)
            | Sink(write=PythonFunction() as function)
        ):
            return function
        case _:
            return None


def engine_of(graph: JobGraph) -> EngineKind:
    if graph.engine is not None:
        return graph.engine
    programs = any(isinstance(vertex, Program) for vertex in graph.vertices)
    return EngineKind.CLASSIC if programs else EngineKind.CONNECT


def caller_of(graph: JobGraph) -> CallerDirectory | None:
    """What the job's relative paths refer to."""
    if graph.caller is not None:
        return graph.caller
    named = [v.directory for v in graph.vertices if isinstance(v, Program) and v.directory]
    return CallerDirectory(path=named[0]) if named else None


def is_materialized(vertex: Vertex) -> bool:
    return isinstance(vertex, Source | Transform) and vertex.materialized
