"""Assembles a job graph from a draft: fills in parameters, pickles functions, describes files.

All faults are collected and reported together, so that the user can correct them at once. A vertex
with a fault keeps its place in the graph: otherwise every vertex that reads it would be reported as
well.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from stoker.core.checks.validation import faults_of, job_type_of
from stoker.core.errors import InvalidJobGraph
from stoker.core.extras import remedy_for
from stoker.core.faults import Fault
from stoker.core.graph import (
    Environment,
    FormatRead,
    FormatWrite,
    JobGraph,
    PythonFunction,
    Sink,
    Source,
    Sql,
    SqlScript,
    Transform,
    Vertex,
)
from stoker.core.ids import Ids, JobId
from stoker.core.triggers import normal_trigger
from stoker.pipeline.artifacts import DescribedFiles, describe_files, distributions_in
from stoker.pipeline.drafts import (
    FunctionDraft,
    JobDraft,
    ScriptDraft,
    SinkDraft,
    SourceDraft,
    TransformDraft,
    VertexDraft,
)
from stoker.pipeline.parameters import JOB_DIRECTORY, Substitution, resolve
from stoker.pipeline.sql import tables_read
from stoker.pipeline.texts import refuse

if TYPE_CHECKING:
    from stoker.pipeline.functions import FunctionPickler


@dataclass(frozen=True, kw_only=True)
class LoadedJob:
    graph: JobGraph
    files: Mapping[str, Path] = field(default_factory=dict)
    """Local files to upload, by the name of the artifact."""

    @property
    def files_by_hash(self) -> dict[str, Path]:
        """Local files to upload, by their SHA-256."""
        hashes = {artifact.name: artifact.sha256 for artifact in self.graph.artifacts}
        return {hashes[name]: path for name, path in self.files.items()}


def assemble(
    draft: JobDraft,
    *,
    job_id: JobId | None,
    params: Mapping[str, str],
    base_directory: Path,
) -> LoadedJob:
    """Raises InvalidJobGraph with all faults of the draft, its files and its graph."""
    job_directory = str(base_directory.absolute())
    values, faults = resolve(
        draft.parameters,
        params,
        job_directory=job_directory,
        declaration=draft.parameter_declaration,
    )
    substitution = Substitution({JOB_DIRECTORY: job_directory, **values})
    translation = _Translation(draft, substitution, values)
    vertices = tuple(translation.vertex(vertex) for vertex in draft.vertices)
    described = describe_files(draft, base_directory)
    graph = JobGraph(
        job_id=job_id if job_id is not None else Ids().job(),
        name=draft.name,
        vertices=vertices,
        configuration=dict(draft.configuration),
        parameters=values,
        artifacts=tuple(artifact for artifact, _ in described.artifacts),
        environment=translation.environment(distributions_in(draft.wheels)),
        restart=draft.restart,
        queue=draft.demands.queue,
        priority=draft.demands.priority,
        slots=draft.demands.slots,
        profile=draft.demands.profile,
    )
    graph = msgspec.structs.replace(graph, job_type=job_type_of(graph))
    faults = [*draft.faults, *faults, *substitution.faults, *translation.faults, *described.faults]
    return checked_job(graph, faults, described, draft.lines)


def checked_job(
    graph: JobGraph,
    faults: Iterable[Fault],
    described: DescribedFiles,
    lines: Mapping[str, str] = MappingProxyType({}),
) -> LoadedJob:
    """Raises InvalidJobGraph with the faults found so far and those of the graph."""
    found = dict.fromkeys([*faults, *faults_of(graph)])
    if found:
        raise InvalidJobGraph(
            [
                f"{lines[fault.place]}: {fault}" if fault.place in lines else str(fault)
                for fault in found
            ]
        )
    return LoadedJob(
        graph=graph, files={artifact.name: path for artifact, path in described.artifacts}
    )


class _Translation:
    def __init__(
        self, draft: JobDraft, substitution: Substitution, params: Mapping[str, str]
    ) -> None:
        self._params = dict(params)
        self._readable = [
            vertex.name
            for vertex in draft.vertices
            if isinstance(vertex, SourceDraft | TransformDraft)
        ]
        self._substitution = substitution
        self._pickler: FunctionPickler | None = None
        self.faults: list[Fault] = []

    def vertex(self, draft: VertexDraft) -> Vertex:
        match draft:
            case SourceDraft():
                place = f"source '{draft.name}'"
                return Source(
                    name=draft.name,
                    read=self._read(draft.read, place),
                    streaming=draft.streaming,
                    materialized=draft.materialized,
                )
            case TransformDraft():
                return self._transform(draft, f"transform '{draft.name}'")
            case SinkDraft():
                place = f"sink '{draft.name}'"
                return Sink(
                    name=draft.name,
                    input=draft.input,
                    write=self._write(draft.write, place),
                    mode=self._substitution.optional(draft.mode, place=place),
                    trigger=self._trigger(draft.trigger, place),
                )
            case ScriptDraft():
                return SqlScript(
                    name=draft.name,
                    statements=tuple(
                        self._substitution.text(statement, place=f"statement {number}")
                        for number, statement in enumerate(draft.statements, start=1)
                    ),
                    file=draft.file,
                    lines=draft.lines,
                )
            case _:
                assert_never(draft)

    def environment(self, wheel_distributions: Set[str]) -> Environment | None:
        """None for a job without Python functions."""
        if self._pickler is None:
            return None
        return self._pickler.environment(wheel_distributions=wheel_distributions)

    def _read(
        self, read: FormatRead | Sql | FunctionDraft, place: str
    ) -> FormatRead | Sql | PythonFunction:
        match read:
            case FunctionDraft():
                return self._function(read, place)
            case Sql(query=query):
                return Sql(query=self._substitution.text(query, place=place))
            case FormatRead():
                fill = self._substitution
                return FormatRead(
                    format=fill.text(read.format, place=place),
                    path=fill.optional(read.path, place=place),
                    schema=fill.optional(read.schema, place=place),
                    options=fill.options(read.options, place=place),
                    table=fill.optional(read.table, place=place),
                )

    def _write(
        self, write: FormatWrite | FunctionDraft, place: str
    ) -> FormatWrite | PythonFunction:
        if isinstance(write, FunctionDraft):
            if "params" not in write.parameters:
                return self._function(write, place)
            own = replace(write, parameters=write.parameters[:-1])
            return self._function(own, place, bound={"params": self._params})
        fill = self._substitution
        return FormatWrite(
            format=fill.text(write.format, place=place),
            path=fill.optional(write.path, place=place),
            options=fill.options(write.options, place=place),
            table=fill.optional(write.table, place=place),
            partition_by=tuple(fill.text(c, place=place) for c in write.partition_by),
        )

    def _transform(self, draft: TransformDraft, place: str) -> Transform:
        if isinstance(draft.compute, FunctionDraft):
            compute: Sql | PythonFunction = self._function(draft.compute, place)
            inputs = draft.inputs or ()
        else:
            query = self._substitution.text(draft.compute.query, place=place)
            compute = Sql(query=query)
            inputs = self._inputs_of_query(query, draft, place)
        return Transform(
            name=draft.name, inputs=inputs, compute=compute, materialized=draft.materialized
        )

    def _inputs_of_query(self, query: str, draft: TransformDraft, place: str) -> tuple[str, ...]:
        if draft.inputs is not None:
            return draft.inputs
        tables = tables_read(query)
        by_folded = {name.lower(): name for name in self._readable if name != draft.name}
        inputs = [by_folded[t.lower()] for t in tables if t.lower() in by_folded]
        if not inputs and len(tables) == 1:
            # The only table that the query reads is no vertex. Validation reports it as an unknown
            # input, with the name that was probably meant.
            return (tables[0],)
        return tuple(dict.fromkeys(inputs))

    def _trigger(self, trigger: str | None, place: str) -> str | None:
        filled = self._substitution.optional(trigger, place=place)
        return None if filled is None else normal_trigger(filled)

    def _function(
        self, draft: FunctionDraft, place: str, *, bound: Mapping[str, Any] | None = None
    ) -> PythonFunction:
        if self._pickler is None:
            try:
                # PySpark is slow to import and not installed with every client.
                from stoker.pipeline.functions import FunctionPickler  # noqa: PLC0415
            except ImportError as error:
                if (remedy := remedy_for(error)) is None:
                    raise
                problem = f"a Python function needs {error.name}, which is not installed"
                raise refuse(place, problem, remedy) from error

            self._pickler = FunctionPickler()
        outcome = self._pickler.pickle(draft.function, draft.parameters, place=place, bound=bound)
        if isinstance(outcome, PythonFunction):
            return outcome
        self.faults.append(outcome)
        name = getattr(draft.function, "__name__", "function")
        return PythonFunction(name=name, payload=b"", parameters=draft.parameters)
