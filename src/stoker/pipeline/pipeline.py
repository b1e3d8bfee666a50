"""Pipeline: a job written in Python, where the names of parameters are the edges.

A Pipeline only collects drafts of vertices. Nothing is pickled, substituted or read until the job
is assembled, because the parameters, the settings of the submitter and the directory of the job's
file are known only then. A mistake that one call shows by itself is raised by that call, so that
the traceback ends in the user's own line; all others are reported together when the job is
assembled.
"""

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
from stoker.pipeline.interactive import is_typed_in
from stoker.pipeline.texts import as_text, as_texts, optional_text, refuse
from stoker.pipeline.vertex_arguments import (
    File,
    Format,
    Mode,
    Trigger,
    edges,
    function_draft,
    given,
    name_of,
    paths_of,
    query_of,
    read_of,
    sink_function_draft,
    write_of,
)

F = TypeVar("F", bound=Callable[..., Any])


class Pipeline:
    """A job: named sources, transforms and sinks.

    Give it to `stoker run FILE.py` by defining it at the top level of the file, or to
    `Cluster.submit`. A decorated function stays an ordinary function, which can be called and
    tested by itself. A mistake in one call raises InvalidJobGraph there; all other mistakes are
    reported together when the job is built.

    - `name`: name of the job. It need not be unique.
    - `configuration`: Spark settings of the job's session, such as
      `{"spark.sql.shuffle.partitions": 8}`.
    - `parameters`: name and default of each parameter; None as the default means that a value must
      be given. `--param day=2026-11-02` or `submit(..., params={"day": ...})` sets it. `${day}` in
      paths, options, queries, modes and triggers is replaced by the value, and functions find it
      in `params["day"]`.
      `${job_directory}`, the directory of the job's file, is always there.
    - `restart`: what follows a failure, as the name of a strategy (`"none"`, `"fixed-delay"`,
      `"failure-rate"`, `"exponential-delay"`) or as a mapping such as `{"strategy": "fixed-delay",
      "attempts": 3, "delay_seconds": 1}`. None means the cluster's default.
    - `queue`: name of the queue in which the job waits.
    - `priority`: a whole number, by default 0; jobs of higher priority start first.
    - `slots`: the most slots that the job uses at the same time; None means as many as it can use.
    - `resources`: what each of its slots must offer, as `{"cores": 1, "memory": "2 gb"}`.
    - `python_files`: modules (.py, .zip, .egg) that the job's functions import.
    - `wheels`: wheels that are installed for the job alone.
    - `files`: other files that travel with the job.
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
        self._undecorated: dict[object, str] = {}

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r})"

    @overload
    def source(self, function: F, /) -> F: ...
    @overload
    def source(
        self, /, *, name: str | None = None, streaming: bool = False, materialized: bool = False
    ) -> Callable[[F], F]: ...
    @overload
    def source(
        self,
        name: str,
        /,
        *,
        format: "Format | None" = None,
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
        format: "Format | None" = None,
        path: File | None = None,
        schema: str | None = None,
        table: str | None = None,
        sql: str | None = None,
        streaming: bool = False,
        materialized: bool = False,
        options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """A vertex that reads from outside: a format, a table, an SQL query or a function.

        ```python
        orders.source("raw", format="csv", path="${data}/orders.csv", header=True)

        @orders.source
        def products(spark, params):
            return spark.read.json(params["path"])
        ```

        As a decorator, the vertex is called `name`, or else like the function. The function returns
        a DataFrame. It takes `spark`, `params`, both or neither; a parameter with a default keeps
        that value.

        - `format`: a format of Spark, such as `"parquet"`, `"csv"`, `"kafka"`.
        - `path`: file or directory to read; a relative path refers to the directory
          in which the job is submitted, as it does in functions and SQL.
        - `schema`: columns as in `"id LONG, at TIMESTAMP"`.
        - `table`: name of a table, in place of a path.
        - `sql`: a query, in place of a format.
        - `options`, or any other keyword: options of the format.
        - `streaming`: read as a stream. A function that returns a stream needs this mark, or else
          its sinks need a trigger.
        - `materialized`: compute the DataFrame once and store it for all vertices that read it; a
          restart then begins there. Not for streams.
        """
        reading = more | given(
            format=format, path=path, schema=schema, table=table, sql=sql, options=options
        )
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
    def transform(self, function: F, /) -> F: ...
    @overload
    def transform(
        self, /, *, name: str | None = None, materialized: bool = False
    ) -> Callable[[F], F]: ...
    @overload
    def transform(
        self,
        name: str,
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
        sql: str | None = None,
        inputs: Iterable[str] | None = None,
        materialized: bool = False,
        **surplus: Any,
    ) -> Any:
        """A vertex that computes a DataFrame from others, by an SQL query or a function.

        ```python
        orders.transform("big", sql="SELECT * FROM raw WHERE amount > 100")

        @orders.transform
        def by_day(big, params):
            return big.groupBy("day").count()
        ```

        As a decorator, the vertex is called `name`, or else like the function. Each parameter of
        the function names a vertex that it reads, except for `spark` and `params`; a parameter with
        a default keeps that value.

        - `sql`: a query that reads vertices as tables.
        - `inputs`: names of the vertices that the query reads; None means that they are found in
          the query.
        - `materialized`: compute the DataFrame once and store it for all vertices that read it; a
          restart then begins there. Not for streams.
        """
        computing = surplus | given(sql=sql, inputs=inputs)
        if isinstance(what, str):
            reads, compute = query_of(f"transform '{what}'", **computing)
            self._add(
                TransformDraft(name=what, inputs=reads, compute=compute, materialized=materialized)
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
        mode: "Mode | None" = None,
        trigger: "Trigger | None" = None,
    ) -> Callable[[F], F]: ...
    @overload
    def sink(
        self,
        input: str,
        *,
        format: "Format | None" = None,
        path: File | None = None,
        table: str | None = None,
        mode: "Mode | None" = None,
        trigger: "Trigger | None" = None,
        name: str | None = None,
        partition_by: Iterable[str] | str = (),
        options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None: ...
    def sink(
        self,
        input: str,
        *,
        format: "Format | None" = None,
        path: File | None = None,
        table: str | None = None,
        mode: "Mode | None" = None,
        trigger: "Trigger | None" = None,
        name: str | None = None,
        partition_by: Iterable[str] | str | None = None,
        options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """A vertex that writes the vertex `input`, to a format, a table or by a function.

        ```python
        orders.sink("by_day", format="parquet", path="${out}/by_day", mode="overwrite")

        @orders.sink("clicks", trigger="10 seconds")
        def store(df, batch_id):
            df.write.format("jdbc").options(...).mode("append").save()
        ```

        A function is `f(df)` for a batch and `f(df, batch_id)` for a stream; `params` may be its
        last parameter. Spark may repeat a batch of a stream, with the same `batch_id`:
        `stoker.sinks` has functions that write it once all the same.

        - `input`: name of the source or transform to write.
        - `format`: a format of Spark; `"parquet"` if only `table` is given.
        - `path`: file or directory to write; a relative path refers to the directory
          in which the job is submitted, as it does in functions and SQL.
        - `table`: name of a table, in place of a path.
        - `mode`: `"append"`, `"overwrite"`, `"ignore"` or `"errorifexists"` for a batch;
          `"append"`, `"update"` or `"complete"` for a stream.
        - `trigger`: only for a stream: an interval such as `"10 seconds"`, or `"available-now"` or
          `"once"`, which process all data that is there and end. None means that each batch starts
          as soon as possible.
        - `name`: name of this vertex; None means the function's name, or `input-format`.
        - `partition_by`: a column, or several; files get a directory for each of their values.
        - `options`, or any other keyword: options of the format.
        """
        if not isinstance(input, str):
            raise refuse("sink", "it has no input", 'name it: @pipeline.sink("hourly")')
        writing = more | given(
            format=format, path=path, table=table, partition_by=partition_by, options=options
        )
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

        Neither the command line nor `Cluster.submit` needs this; it shows in a test that the job
        is valid.

        - `job_id`: 32 hexadecimal digits; None means a new id.
        - `params`: values of parameters, by name.
        - `base_directory`: directory to which relative paths of `python_files`, `wheels` and
          `files` belong, and the value of `${job_directory}`; None means the working directory.
        """
        return assemble(
            self.draft(),
            job_id=None if job_id is None else JobId(job_id),
            params=as_texts(params or {}, place="parameters", what="value"),
            base_directory=Path(base_directory) if base_directory is not None else Path.cwd(),
        ).graph

    def draft(self) -> JobDraft:
        # No docstring: the Python reference lists every method that has one, and users do not call
        # this one.
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
                for kind in self._undecorated.values()
            ),
        )

    def _add(self, draft: VertexDraft) -> None:
        # In a notebook, a cell that runs again replaces what it has defined before.
        if draft.name in self._vertices and not is_typed_in():
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
        # If no function follows, `draft` reports the decorator as a fault.
        call = object()
        self._undecorated[call] = kind

        def decorate(function: F) -> F:
            if self._undecorated.pop(call, None) is None:
                raise refuse(
                    kind,
                    "one decorator is used for two functions",
                    "write a decorator of its own above each function",
                )
            return add(function)

        return decorate
