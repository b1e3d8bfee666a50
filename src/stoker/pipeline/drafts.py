"""A job as it is being written: functions are still functions and `${day}` is still `${day}`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.core.faults import Fault
from stoker.core.graph import FormatRead, FormatWrite, RestartPolicy, Sql
from stoker.pipeline.resources import Demands

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
    """None: to be found in the SQL query."""
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


VertexDraft = SourceDraft | TransformDraft | SinkDraft | ScriptDraft


@dataclass(frozen=True, kw_only=True)
class JobDraft:
    name: str
    vertices: tuple[VertexDraft, ...]
    configuration: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str | None] = field(default_factory=dict)
    """Name to default; None means that a value must be given."""
    restart: RestartPolicy | None = None
    demands: Demands = Demands()
    python_files: tuple[Path, ...] = ()
    wheels: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    faults: tuple[Fault, ...] = ()
    """What was found wrong while the job was written and can wait for the rest."""
