"""A write is exactly one call to the Spark server."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.proto import commands_pb2

from stoker.engine.runner.pyspark_client import single_call


class Unreachable(grpc.RpcError):  # type: ignore[misc]
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "the connection broke"

    def trailing_metadata(self) -> None:
        return None


class Server:
    """Records each call and breaks its connection."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def answers(_request: Any, **_named: Any) -> Iterator[None]:
            self.calls.append(name)
            return map(break_off, [name])

        return answers


def break_off(_call: str) -> None:
    raise Unreachable


@pytest.fixture
def client() -> Iterator[Any]:
    client: Any = SparkConnectClient("sc://127.0.0.1:1")
    # Otherwise the client first asks the server for these two values.
    client._plan_compression_threshold, client._plan_compression_algorithm = -1, "NONE"
    client.set_retry_policies([DefaultPolicy(max_retries=2, initial_backoff=1, max_backoff=1)])
    client._stub = Server()
    yield client
    client.close()


def write(client: Any) -> None:
    with pytest.raises((PySparkException, grpc.RpcError)):
        client.execute_command(commands_pb2.Command())


def test_a_write_whose_connection_breaks_is_not_sent_again(client: Any) -> None:
    with single_call(client):
        write(client)
    assert client._stub.calls == ["ExecutePlan"]


@pytest.mark.filterwarnings("ignore:.RETRIES_EXCEEDED")
def test_the_client_is_unchanged_afterwards(client: Any) -> None:
    before = client.get_retry_policies()
    with pytest.raises(ZeroDivisionError), single_call(client):
        raise ZeroDivisionError
    assert client.get_retry_policies() == before
    write(client)
    assert client._stub.calls.count("ReattachExecute") > 1
