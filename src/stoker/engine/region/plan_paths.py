"""Relative paths in the plans that a client of Spark Connect sends.

All reads, writes and queries of a job's code reach the shared server as such plans, so this is the
one place where none of them can be overlooked, whichever of PySpark's many methods made it.
"""

import os
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from pyspark.sql.connect.client import SparkConnectClient

from stoker.core.graph import CallerDirectory
from stoker.core.spark_paths import is_of_files
from stoker.engine.region.relative_paths import RelativePaths
from stoker.engine.region.sql_paths import resolve_sql
from stoker.engine.reuse.plans import nested_messages

_PREFIX = "spark.connect."
_WITHOUT_PATHS = ("Expression", "DataType", "LocalRelation", "UserContext")
"""Messages, by the beginning of their names, that hold no paths but may be large."""
_PATH_OPTIONS = frozenset({"path", "checkpointlocation"})


def resolve_plan(plan: Any, paths: RelativePaths) -> None:
    """Make the paths in the plan absolute; raises CannotRun if the caller is not here."""
    name = plan.DESCRIPTOR.full_name.removeprefix(_PREFIX)
    if name.startswith(_WITHOUT_PATHS):
        return
    if (resolve := _RESOLVERS.get(name)) is not None:
        resolve(plan, paths)
    for part in nested_messages(plan):
        resolve_plan(part, paths)


def _read(plan: Any, paths: RelativePaths) -> None:
    if is_of_files(plan.format):
        for at, path in enumerate(plan.paths):
            plan.paths[at] = paths.absolute(path, "spark.read")
        _options(plan.options, paths, "spark.read")


def _write(plan: Any, paths: RelativePaths) -> None:
    if is_of_files(plan.source):
        _field(plan, "path", paths, "df.write")
        _options(plan.options, paths, "df.write")


def _write_v2(plan: Any, paths: RelativePaths) -> None:
    _options(plan.options, paths, "df.writeTo")
    _options(plan.table_properties, paths, "df.writeTo", keys=frozenset({"location"}))


def _write_stream(plan: Any, paths: RelativePaths) -> None:
    if is_of_files(plan.format):
        _field(plan, "path", paths, "df.writeStream")
        _options(plan.options, paths, "df.writeStream")
    else:
        keys = frozenset({"checkpointlocation"})
        _options(plan.options, paths, "df.writeStream", keys=keys)


def _table(plan: Any, paths: RelativePaths) -> None:
    if is_of_files(plan.source):
        _field(plan, "path", paths, "spark.catalog")
        _options(plan.options, paths, "spark.catalog")


def _refresh(plan: Any, paths: RelativePaths) -> None:
    _field(plan, "path", paths, "spark.catalog")


def _model(plan: Any, paths: RelativePaths) -> None:
    _field(plan, "path", paths, "pyspark.ml")


def _query(plan: Any, paths: RelativePaths) -> None:
    plan.query = resolve_sql(plan.query, paths)


def _sql_command(plan: Any, paths: RelativePaths) -> None:
    if plan.sql:
        plan.sql = resolve_sql(plan.sql, paths)


def _named_table(plan: Any, paths: RelativePaths) -> None:
    before = "TABLE "
    statement = resolve_sql(before + plan.unparsed_identifier, paths)
    plan.unparsed_identifier = statement.removeprefix(before)


_RESOLVERS: Mapping[str, Callable[[Any, RelativePaths], None]] = {
    "Read.DataSource": _read,
    "Read.NamedTable": _named_table,
    "SQL": _query,
    "SqlCommand": _sql_command,
    "WriteOperation": _write,
    "WriteOperationV2": _write_v2,
    "WriteStreamOperationStart": _write_stream,
    "CreateTable": _table,
    "CreateExternalTable": _table,
    "RefreshByPath": _refresh,
    "MlCommand.Write": _model,
    "MlCommand.Read": _model,
}


def _field(plan: Any, name: str, paths: RelativePaths, place: str) -> None:
    if path := getattr(plan, name):
        prefix = paths.prefix(path, place)
        if prefix:
            # Only then: setting one field of a `oneof` clears the others.
            setattr(plan, name, prefix + path)


def _options(
    options: MutableMapping[str, str],
    paths: RelativePaths,
    place: str,
    *,
    keys: frozenset[str] = _PATH_OPTIONS,
) -> None:
    for key in list(options):
        if key.lower() in keys:
            options[key] = paths.absolute(options[key], place)


class _ResolvingStub:
    def __init__(self, stub: Any, paths: RelativePaths) -> None:
        self.stub = stub
        self._paths = paths

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.stub, name)
        if name not in ("AnalyzePlan", "ExecutePlan"):
            return call

        def resolve_and_call(request: Any, *args: Any, **named: Any) -> Any:
            resolve_plan(request, self._paths)
            return call(request, *args, **named)

        return resolve_and_call


class _Resolution:
    """The stub property of all clients in this process, while their plans are resolved."""

    def __init__(self) -> None:
        self._original: Any = vars(SparkConnectClient)["_stub"]
        self._property = property(self._stub_of, self._replace_stub)
        self.paths: RelativePaths | None = None

    def install(self) -> None:
        clients: Any = SparkConnectClient
        # Only once: Python forgets what it has specialized when a class changes.
        if vars(clients)["_stub"] is not self._property:
            clients._stub = self._property

    def _stub_of(self, client: Any) -> Any:
        stub = self._original.fget(client)
        return stub if self.paths is None else _ResolvingStub(stub, self.paths)

    def _replace_stub(self, client: Any, stub: Any) -> None:
        # Who replaces a stub for a while puts back the one that it has read.
        self._original.fset(client, stub.stub if isinstance(stub, _ResolvingStub) else stub)


_resolution = _Resolution()


def resolve_paths_of_clients(paths: RelativePaths | None) -> None:
    """Resolve the paths in the plans of all clients in this process; None: of none any more.

    This holds for existing clients, and for those that the job's code will make.
    """
    _resolution.paths = paths
    _resolution.install()


def resolve_paths_in_worker(
    function: Callable[[Any, int], None],
    caller: CallerDirectory | None,
    working_directory: Path | None,
) -> Callable[[Any, int], None]:
    """Wrap a function for `foreachBatch`, which Spark Connect runs in a process of its own.

    That process enters the working directory, so that the function also finds its own files.
    """
    # Pickled by value for a worker that may lack Stoker: there Spark refuses relative paths.
    fields = None if caller is None else (caller.path, caller.machine, caller.inode)
    directory = None if working_directory is None else str(working_directory)

    def run_with_paths(frame: Any, batch_id: int) -> None:
        if directory is not None:
            os.chdir(directory)
        try:
            from stoker.engine.region.plan_paths import resolve_paths_for  # noqa: PLC0415
        except ImportError:
            pass
        else:
            resolve_paths_for(fields)
        function(frame, batch_id)

    return run_with_paths


def resolve_paths_for(fields: tuple[str, str, int] | None) -> None:
    """Like `resolve_paths_of_clients`, for the caller's directory with these fields."""
    caller = None
    if fields is not None:
        path, machine, inode = fields
        caller = CallerDirectory(path=path, machine=machine, inode=inode)
    resolve_paths_of_clients(RelativePaths(caller))
