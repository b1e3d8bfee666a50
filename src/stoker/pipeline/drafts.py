"""A job as its author wrote it: functions are not pickled, and `${day}` is not replaced yet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.core.faults import Fault
from stoker.core.graph import FormatRead, FormatWrite, RestartPolicy, Sql
from stoker.core.ids import JobId
from stoker.pipeline.demands import DemandOverrides, Demands

UserFunction = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class FunctionDraft:
    function: UserFunction
    parameters: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SourceDraft:
    name: str
    read: FormatRead | Sql | FunctionDraft
    streaming: bool = False
    materialized: bool = False


@dataclass(frozen=True, kw_only=True)
class TransformDraft:
    name: str
    inputs: tuple[str, ...] | None
    """None means that the inputs are found in the SQL query."""
    compute: Sql | FunctionDraft
    materialized: bool = False


@dataclass(frozen=True, kw_only=True)
class SinkDraft:
    name: str
    input: str
    write: FormatWrite | FunctionDraft
    mode: str | None = None
    trigger: str | None = None


@dataclass(frozen=True, kw_only=True)
class ScriptDraft:
    name: str
    statements: tuple[str, ...]
    file: str
    lines: tuple[int, ...]
    """Where each statement begins in the file."""


VertexDraft = SourceDraft | TransformDraft | SinkDraft | ScriptDraft


@dataclass(frozen=True, kw_only=True)
class JobDraft:
    name: str
    vertices: tuple[VertexDraft, ...]
    configuration: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str | None] = field(default_factory=dict)
    """Name to default; None means that a value must be given."""
    parameter_declaration: str = field(
        default="declare it: Pipeline(…, parameters={{'{name}': None}})", compare=False
    )
    """How the author declares one more parameter, `{name}`."""
    restart: RestartPolicy | None = None
    demands: Demands = Demands()
    python_files: tuple[Path, ...] = ()
    wheels: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    faults: tuple[Fault, ...] = ()
    """Mistakes that can wait to be reported with those of the assembled job."""
    lines: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where in its file the job says something, by the place that a fault names: `a.yml line 3`."""


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """What the submitter of a job sets, in addition to the file or the object itself."""

    name: str | None = None
    job_id: JobId | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    """What a Python file finds in `sys.argv[1:]`."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Overrides the job's own configuration."""
    python_files: Sequence[Path] = ()
    wheels: Sequence[Path] = ()
    files: Sequence[Path] = ()
    demands: DemandOverrides = field(default_factory=DemandOverrides)
    engine: str = "auto"
    """connect, classic or auto."""
    is_program: bool | None = None
    """None means that a Python file which does not import Stoker is a program."""
    requirements: Path | None = None
    """Packages that pip installs for a program."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of a program's process."""
    directory: Path | None = None
    """Where the job is submitted: what its relative paths refer to, and the working directory of a
    program. None: the job may have no relative paths."""
