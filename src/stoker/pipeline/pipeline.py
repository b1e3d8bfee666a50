"""Pipeline: a job written in Python, where the names of parameters are the edges."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

from stoker.core.faults import Fault
from stoker.core.graph import JobGraph, RestartPolicy
from stoker.core.ids import JobId
from stoker.pipeline.building import assemble
from stoker.pipeline.demands import demands_of, restart_policy
from stoker.pipeline.drafts import (
    JobDraft,
    SinkDraft,
    SourceDraft,
    TransformDraft,
    UserFunction,
    VertexDraft,
)
from stoker.pipeline.texts import as_text, as_texts, optional_text, refuse
from stoker.pipeline.vertex_arguments import (
    File,
    edges,
    function_draft,
    name_of,
    paths_of,
    query_of,
    read_of,
    sink_function_draft,
    write_of,
)

F = TypeVar("F", bound=Callable[..., Any])


class Pipeline:
    """Named sources, transforms and sinks.

    Decorated functions stay what they are and can be called and tested by themselves. A mistake
    is reported where it is written if it can be seen there, else all together by `build`.
    """

    def __init__(
        self,
        name: str,
        *,
        configuration: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        restart: RestartPolicy | Mapping[str, Any] | str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        slots: int | None = None,
        resources: Mapping[str, Any] | None = None,
        python_files: Iterable[File] = (),
        wheels: Iterable[File] = (),
        files: Iterable[File] = (),
    ) -> None:
        self.name = as_text(name, place="job", what="its name")
        self._configuration = as_texts(configuration or {}, place="configuration", what="value")
        self._parameters = {
            key: optional_text(value, place=f"parameter '{key}'", what="its default")
            for key, value in (parameters or {}).items()
        }
        self._restart = restart_policy(restart)
        self._demands = demands_of(queue, priority, slots, resources)
        self._python_files = paths_of(python_files, "python_files")
        self._wheels = paths_of(wheels, "wheels")
        self._files = paths_of(files, "files")
        self._vertices: dict[str, VertexDraft] = {}
        self._undecorated: list[str] = []

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r})"

    @overload
    def source(self, what: F, /) -> F: ...
    @overload
    def source(
        self, /, *, name: str | None = None, streaming: bool = False, materialized: bool = False
    ) -> Callable[[F], F]: ...
    @overload
    def source(
        self,
        what: str,
        /,
        *,
        format: str | None = None,
        path: File | None = None,
        schema: str | None = None,
        table: str | None = None,
        sql: str | None = None,
        streaming: bool = False,
        materialized: bool = False,
        options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None: ...
    def source(
        self,
        what: Any = None,
        /,
        *,
        name: str | None = None,
        streaming: bool = False,
        materialized: bool = False,
        **reading: Any,
    ) -> Any:
        """A DataFrame from outside: `source("raw", format=…)`, or a decorator of `f(spark)`."""
        if isinstance(what, str):
            read = read_of(f"source '{what}'", **reading)
            self._add(
                SourceDraft(name=what, read=read, streaming=streaming, materialized=materialized)
            )
            return None

        def add(function: F) -> F:
            own = name_of(function, name, kind="source")
            draft = function_draft(function, place=f"source '{own}'")
            self._add(
                SourceDraft(name=own, read=draft, streaming=streaming, materialized=materialized)
            )
            return function

        return self._decorator(what, add, kind="source", surplus=reading)

    @overload
    def transform(self, what: F, /) -> F: ...
    @overload
    def transform(
        self, /, *, name: str | None = None, materialized: bool = False
    ) -> Callable[[F], F]: ...
    @overload
    def transform(
        self,
        what: str,
        /,
        *,
        sql: str,
        inputs: Iterable[str] | None = None,
        materialized: bool = False,
    ) -> None: ...
    def transform(
        self,
        what: Any = None,
        /,
        *,
        name: str | None = None,
        materialized: bool = False,
        **computing: Any,
    ) -> Any:
        """A DataFrame from others: `transform("big", sql=…)`, or a decorator of `f(raw, …)`."""
        if isinstance(what, str):
            inputs, compute = query_of(f"transform '{what}'", **computing)
            self._add(
                TransformDraft(name=what, inputs=inputs, compute=compute, materialized=materialized)
            )
            return None

        def add(function: F) -> F:
            own = name_of(function, name, kind="transform")
            draft = function_draft(function, place=f"transform '{own}'")
            self._add(
                TransformDraft(
                    name=own, inputs=edges(draft), compute=draft, materialized=materialized
                )
            )
            return function

        return self._decorator(what, add, kind="transform", surplus=computing)

    @overload
    def sink(
        self,
        input: str,
        *,
        name: str | None = None,
        mode: str | None = None,
        trigger: str | None = None,
    ) -> Callable[[F], F]: ...
    @overload
    def sink(
        self,
        input: str,
        *,
        format: str | None = None,
        path: File | None = None,
        table: str | None = None,
        mode: str | None = None,
        trigger: str | None = None,
        name: str | None = None,
        partition_by: Iterable[str] | str = (),
        options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None: ...
    def sink(
        self,
        input: str,
        *,
        name: str | None = None,
        mode: str | None = None,
        trigger: str | None = None,
        **writing: Any,
    ) -> Any:
        """Write a vertex: `sink("hourly", format=…)`, or a decorator of a function.

        The function is `f(df)` for a batch job and `f(df, batch_id)` for a stream; it may take
        `params` as its last parameter.
        """
        if not isinstance(input, str):
            raise refuse("sink", "it has no input", 'name it: @pipeline.sink("hourly")')
        if writing:
            place = f"sink '{name}'" if name else f"sink of '{input}'"
            write = write_of(place, **writing)
            own = name or f"{input}-{write.format}"
            self._add(SinkDraft(name=own, input=input, write=write, mode=mode, trigger=trigger))
            return None

        def add(function: F) -> F:
            own = name_of(function, name, kind="sink")
            draft = sink_function_draft(function, place=f"sink '{own}'")
            self._add(SinkDraft(name=own, input=input, write=draft, mode=mode, trigger=trigger))
            return function

        return self._decorator(None, add, kind=f"sink of '{input}'", surplus={})

    def build(
        self,
        *,
        job_id: str | None = None,
        params: Mapping[str, Any] | None = None,
        base_directory: File | None = None,
    ) -> JobGraph:
        """The job as data. Raises InvalidJobGraph with every fault.

        Relative paths of artifacts are taken from `base_directory`, else from the working
        directory; `stoker run` gives the directory of the job's file.
        """
        return assemble(
            self.draft(),
            job_id=None if job_id is None else JobId(job_id),
            params=as_texts(params or {}, place="parameters", what="value"),
            base_directory=Path(base_directory) if base_directory is not None else Path.cwd(),
        ).graph

    def draft(self) -> JobDraft:
        return JobDraft(
            name=self.name,
            vertices=tuple(self._vertices.values()),
            configuration=dict(self._configuration),
            parameters=dict(self._parameters),
            restart=self._restart,
            demands=self._demands,
            python_files=self._python_files,
            wheels=self._wheels,
            files=self._files,
            faults=tuple(
                Fault(
                    kind,
                    "it has neither a format nor a function",
                    "give format=, or put it as a decorator above a function",
                )
                for kind in self._undecorated
            ),
        )

    def _add(self, draft: VertexDraft) -> None:
        if draft.name in self._vertices:
            is_default_name = isinstance(draft, SinkDraft) and draft.name.startswith(
                f"{draft.input}-"
            )
            raise refuse(
                f"vertex '{draft.name}'",
                "the name is used twice",
                "give name=" if is_default_name else "give each vertex a name of its own",
            )
        self._vertices[draft.name] = draft

    def _decorator(
        self,
        what: UserFunction | None,
        add: Callable[[F], F],
        *,
        kind: str,
        surplus: Mapping[str, Any],
    ) -> Any:
        if surplus:
            raise refuse(
                kind,
                f"{', '.join(f'{key}=' for key in surplus)} without a name",
                f'write {kind}("name", …), or decorate a function without them',
            )
        if what is not None:
            return add(what)  # type: ignore[arg-type]
        # Until it has met its function, `build` has something to complain about.
        self._undecorated.append(kind)

        def decorate(function: F) -> F:
            self._undecorated.remove(kind)
            return add(function)

        return decorate
