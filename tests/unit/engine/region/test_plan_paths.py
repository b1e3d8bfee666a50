"""Relative paths in the plans of Spark Connect clients."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.proto import base_pb2, relations_pb2

from stoker.core.spark_paths import describe_directory
from stoker.engine.failures import CannotRun
from stoker.engine.region.plan_paths import (
    resolve_paths_in_worker,
    resolve_paths_of_clients,
    resolve_plan,
)
from stoker.engine.region.relative_paths import RelativePaths


@pytest.fixture
def here(tmp_path: Path) -> RelativePaths:
    return RelativePaths(describe_directory(tmp_path))


def read(*paths: str, **fields: Any) -> relations_pb2.Relation:
    relation = relations_pb2.Relation()
    relation.read.data_source.paths.extend(paths)
    for name, value in fields.items():
        if name == "options":
            relation.read.data_source.options.update(value)
        else:
            setattr(relation.read.data_source, name, value)
    return relation


def request_of(relation: relations_pb2.Relation) -> base_pb2.ExecutePlanRequest:
    request = base_pb2.ExecutePlanRequest()
    # Somewhere below, as in a real plan.
    request.plan.root.project.input.filter.input.CopyFrom(relation)
    return request


def test_a_read_anywhere_in_a_plan_is_resolved(here: RelativePaths, tmp_path: Path) -> None:
    request = request_of(read("in", "/abs", format="csv", options={"PATH": "x", "sep": "a"}))
    resolve_plan(request, here)
    source = request.plan.root.project.input.filter.input.read.data_source
    assert list(source.paths) == [f"{tmp_path}/in", "/abs"]
    assert dict(source.options) == {"PATH": f"{tmp_path}/x", "sep": "a"}


def test_a_read_in_the_default_format_is_resolved(here: RelativePaths, tmp_path: Path) -> None:
    relation = read("in")
    resolve_plan(relation, here)
    assert list(relation.read.data_source.paths) == [f"{tmp_path}/in"]


def test_the_path_of_an_unknown_format_may_mean_anything() -> None:
    relation = read("db.table", format="iceberg")
    resolve_plan(relation, RelativePaths(None))
    assert list(relation.read.data_source.paths) == ["db.table"]


def test_queries_and_names_of_tables_are_resolved(here: RelativePaths, tmp_path: Path) -> None:
    query, table = relations_pb2.Relation(), relations_pb2.Relation()
    query.sql.query = "SELECT * FROM csv.`in`"
    table.read.named_table.unparsed_identifier = "parquet.`in`"
    for relation in (query, table):
        resolve_plan(relation, here)
    assert query.sql.query == f"SELECT * FROM csv.`{tmp_path}/in`"
    assert table.read.named_table.unparsed_identifier == f"parquet.`{tmp_path}/in`"


def test_writes_and_streams_are_resolved(here: RelativePaths, tmp_path: Path) -> None:
    command = base_pb2.Plan().command
    command.write_operation.path = "out"
    command.write_operation.source = "parquet"
    resolve_plan(command, here)
    assert command.write_operation.path == f"{tmp_path}/out"

    stream = base_pb2.Plan().command
    stream.write_stream_operation_start.format = "console"
    stream.write_stream_operation_start.options["checkpointLocation"] = "saved"
    resolve_plan(stream, here)
    start = stream.write_stream_operation_start
    assert start.options["checkpointLocation"] == f"{tmp_path}/saved"


def test_a_write_to_a_table_stays_one(here: RelativePaths, tmp_path: Path) -> None:
    """The name of a table and a path exclude each other in the message."""
    command = base_pb2.Plan().command
    command.write_operation.table.table_name = "t"
    command.write_operation.options["path"] = "out"
    resolve_plan(command, here)
    assert command.write_operation.table.table_name == "t"
    assert command.write_operation.options["path"] == f"{tmp_path}/out"


def test_tables_of_the_catalog_are_resolved(here: RelativePaths, tmp_path: Path) -> None:
    relation = relations_pb2.Relation()
    relation.catalog.create_table.path = "out"
    relation.catalog.create_table.source = "csv"
    resolve_plan(relation, here)
    assert relation.catalog.create_table.path == f"{tmp_path}/out"


class Client(SparkConnectClient):
    """A client without a connection, whose stub keeps what it is sent."""

    is_closed = False

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self._internal_stub: Any = SimpleNamespace(
            ExecutePlan=self.sent.append, Config=lambda: "config"
        )


@pytest.fixture
def client() -> Iterator[Any]:
    yield Client()
    resolve_paths_of_clients(None)


def test_every_client_of_the_process_resolves_until_told_otherwise(
    client: Any, here: RelativePaths, tmp_path: Path
) -> None:
    resolve_paths_of_clients(here)
    client._stub.ExecutePlan(request_of(read("in")))
    resolve_paths_of_clients(None)
    client._stub.ExecutePlan(request_of(read("in")))
    sent = [
        each.plan.root.project.input.filter.input.read.data_source.paths[0] for each in client.sent
    ]
    assert sent == [f"{tmp_path}/in", "in"]
    assert client._stub.Config() == "config"


def test_a_refused_path_is_not_sent(client: Any) -> None:
    resolve_paths_of_clients(RelativePaths(None))
    with pytest.raises(CannotRun, match=r"spark\.read: the path in is relative"):
        client._stub.ExecutePlan(request_of(read("in")))
    assert client.sent == []


def test_putting_back_a_replaced_stub_leaves_no_layer(client: Any, here: RelativePaths) -> None:
    """A session is watched for a while in many tasks of one process."""
    original = client._internal_stub
    resolve_paths_of_clients(here)
    before = client._stub
    client._stub = SimpleNamespace()
    client._stub = before
    assert client._internal_stub is original


def test_a_function_for_batches_resolves_in_its_own_process(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def function(frame: Any, batch_id: int) -> None:
        frame._stub.ExecutePlan(request_of(read("in")))
        seen.append(batch_id)

    wrapped = resolve_paths_in_worker(function, describe_directory(tmp_path), tmp_path)
    monkeypatch.chdir("/")
    wrapped(client, 7)
    assert Path.cwd() == tmp_path
    [request] = client.sent
    source = request.plan.root.project.input.filter.input.read.data_source
    assert list(source.paths) == [f"{tmp_path}/in"]
    assert seen == [7]
    # Nothing of this process travels along: the function is pickled by value.
    loaded = cloudpickle.loads(cloudpickle.dumps(resolve_paths_in_worker(print, None, None)))
    assert callable(loaded)
