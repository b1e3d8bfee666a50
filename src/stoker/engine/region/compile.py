"""Compiles a region of the job graph to Spark DataFrames, each vertex from its inputs.

Nothing runs here: a DataFrame is only a plan until the region's one action. The job's functions
are loaded before any frame is built, so that a broken one fails the task before it has an effect.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
from pyspark.errors import AnalysisException, PySparkException

from stoker.core.graph import (
    FormatRead,
    JobGraph,
    PythonFunction,
    Source,
    Sql,
    Transform,
    function_of,
)
from stoker.core.regions import Region
from stoker.engine.failures import CannotRun
from stoker.engine.region.call_sites import failed_line
from stoker.engine.region.environment import load_function, words_of
from stoker.engine.region.materialize import MaterializedResults

DataFrame = Any
Session = Any

_MARKER = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")


def arguments_of(query: str, parameters: Mapping[str, str]) -> dict[str, str]:
    """The job parameters that a query refers to as `:name`; their values are strings."""
    named = set(_MARKER.findall(query))
    return {name: value for name, value in parameters.items() if name in named}


def run_sql(session: Session, query: str, parameters: Mapping[str, str]) -> DataFrame:
    arguments = arguments_of(query, parameters)
    return session.sql(query, args=arguments) if arguments else session.sql(query)


class RegionCompiler:
    def __init__(
        self, session: Session, graph: JobGraph, region: Region, results: MaterializedResults
    ) -> None:
        self._session = session
        self._graph = graph
        self._region = region
        self._results = results
        self._frames: dict[str, DataFrame] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self.at = ""
        """The vertex whose frame is being built, or whose function runs."""
        self.views: set[str] = set()
        """Temporary views in the session, by which queries read their inputs."""

    def load_functions(self) -> None:
        """Load every function of the region; raises CannotRun for one that is broken."""
        for vertex in map(self._graph.vertex, self._region.vertices):
            if (function := function_of(vertex)) is not None:
                self._functions[vertex.name] = load_function(function, vertex.name)

    def function(self, vertex: str) -> Callable[..., Any]:
        return self._functions[vertex]

    def frame(self, name: str) -> DataFrame:
        """The DataFrame of a vertex, built once."""
        if name not in self._frames:
            outer, self.at = self.at, name
            self._frames[name] = self._build(name)
            self.at = outer
        return self._frames[name]

    def vertex_of(self, error: BaseException) -> str:
        """The vertex at fault for the exception; empty if that cannot be told.

        A frame that cannot be resolved is often noticed only when another vertex uses it.
        """
        if isinstance(error, AnalysisException) and (unresolved := self._first_unresolved()):
            return unresolved
        names = list(self._functions)
        return self.at or (names[0] if len(names) == 1 else "")

    def title(self, name: str) -> str:
        return f"{type(self._graph.vertex(name)).__name__.lower()} '{name}'"

    def failed_line(self, name: str) -> str:
        """File and line in the vertex's function that made what Spark cannot resolve, if known."""
        return failed_line(self._frames[name]) if name in self._frames else ""

    def query(self, name: str) -> str:
        """The SQL of the vertex; empty if it has none."""
        match self._graph.vertex(name):
            case Source(read=Sql() as sql) | Transform(compute=Sql() as sql):
                return sql.query
            case _:
                return ""

    def definition(self, name: str) -> str:
        """File and line of the vertex's function; empty if it has none."""
        code = getattr(self._functions.get(name), "__code__", None)
        return f"{code.co_filename} line {code.co_firstlineno}" if code is not None else ""

    def places_of_functions(self) -> list[str]:
        return [
            ", ".join(filter(None, (self.title(name), self.definition(name))))
            for name in self._functions
        ]

    def _first_unresolved(self) -> str:
        """Over Spark Connect, a frame is only resolved when it is used, after all were built."""
        for name, frame in self._frames.items():
            try:
                frame.schema  # noqa: B018
            except AnalysisException:
                return name
            except (PySparkException, grpc.RpcError):
                return ""
        return ""

    def _build(self, name: str) -> DataFrame:
        if name in self._region.reads:
            return self._session.read.parquet(self._results.directory_of(name))
        vertex = self._graph.vertex(name)
        match vertex:
            case Source(read=FormatRead() as read):
                return self._read(read, streaming=vertex.streaming)
            case Source(read=Sql() as sql):
                return run_sql(self._session, sql.query, self._graph.parameters)
            case Source(read=PythonFunction() as function):
                return self._call(name, function)
            case Transform(compute=Sql() as sql, inputs=inputs):
                for upstream in inputs:
                    self.frame(upstream).createOrReplaceTempView(upstream)
                    self.views.add(upstream)
                return run_sql(self._session, sql.query, self._graph.parameters)
            case Transform(compute=PythonFunction() as function):
                return self._call(name, function)
            case _:
                raise CannotRun(
                    "NoSuchFrame", f"{name} is a sink and has no DataFrame for others to read"
                )

    def _read(self, read: FormatRead, *, streaming: bool) -> DataFrame:
        reader = self._session.readStream if streaming else self._session.read
        if read.table is not None:
            return reader.options(**read.options).table(read.table)
        reader = reader.format(read.format).options(**read.options)
        if read.schema is not None:
            reader = reader.schema(read.schema)
        return reader.load(read.path) if read.path is not None else reader.load()

    def _call(self, name: str, function: PythonFunction) -> DataFrame:
        arguments = [self._argument(name, parameter) for parameter in function.parameters]
        frame = self._functions[name](*arguments)
        # Look at the class: reading `frame.isStreaming` would call the server.
        if not all(hasattr(type(frame), each) for each in ("isStreaming", "writeStream")):
            raise CannotRun(
                "NotADataFrame",
                f"{words_of(function, name)} returned {_describe(frame)}, but a Spark DataFrame "
                "is needed; return one",
            )
        return frame

    def _argument(self, vertex: str, parameter: str) -> Any:
        known = self._graph.vertex(vertex)
        inputs = known.inputs if isinstance(known, Transform) else ()
        if parameter in inputs:
            return self.frame(parameter)
        if parameter == "spark":
            return self._session
        if parameter == "params":
            return dict(self._graph.parameters)
        raise CannotRun(
            "UnknownParameter",
            f"the function of {vertex} has a parameter {parameter}, which is neither "
            f"one of its inputs ({', '.join(inputs) or 'none'}) nor spark nor params",
        )


def _describe(value: object) -> str:
    if value is None:
        return "None (is the return statement missing?)"
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"a value of type {module}{kind.__qualname__}"


@contextmanager
def explain_mismatch(frame: DataFrame, name: str, *, streaming: bool) -> Iterator[None]:
    """Explain Spark's refusal when the frame is a stream and the region is not, or the reverse.

    Checking the frame beforehand would cost every task a round trip to the server.
    """
    try:
        yield
    except AnalysisException as error:
        if _is_stream(frame, otherwise=streaming) == streaming:
            raise
        if streaming:
            message = (
                f"{name} has a trigger or a streaming source, but what it writes is a batch "
                "DataFrame; read with spark.readStream, or remove the trigger and streaming=True"
            )
        else:
            message = (
                f"{name} runs as batch, but what it writes is a stream; mark the source "
                "with streaming=True or give the sink a trigger"
            )
        raise CannotRun("StreamingMismatch", message) from error


def _is_stream(frame: DataFrame, *, otherwise: bool) -> bool:
    try:
        return bool(frame.isStreaming)
    except AnalysisException:
        return otherwise
