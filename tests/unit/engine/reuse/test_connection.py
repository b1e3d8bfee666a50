"""Sessions follow each other over one connection, which has no server at its other end."""

import uuid

import grpc
import pytest
from pyspark.sql.connect.session import SparkSession as ConnectSession

from stoker.engine.reuse.connection import LoopbackChannel, ServerConnection


def _url() -> str:
    return f"sc://localhost:1/;token=none;user_id=nobody;session_id={uuid.uuid4()}"


def test_a_released_session_leaves_the_connection_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # PySpark sets this variable and never unsets it.
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    connection = ServerConnection()
    first = connection.open(_url())
    channel = first.client._channel
    connection.release(first)
    assert ConnectSession._get_default_session() is None
    first.client.close()
    second = connection.open(_url())
    try:
        assert second.client._channel is channel
        assert second.session_id != first.session_id
        assert ConnectSession._get_default_session() is second
        with pytest.raises(grpc.RpcError):
            channel.unary_unary("/nobody/Answers")(b"", timeout=5)
    finally:
        connection.release(second)
        channel.close()


def test_the_token_is_sent_to_the_address_at_which_spark_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`localhost` also means ::1, where another user of the machine may listen."""
    targets: list[str] = []
    opened = grpc.secure_channel

    def open_channel(target: str, *more: object, **options: object) -> grpc.Channel:
        targets.append(target)
        return opened(target, *more, **options)

    monkeypatch.setattr(grpc, "secure_channel", open_channel)
    channel = LoopbackChannel("sc://localhost:4711/;token=secret;user_id=nobody").toChannel()
    channel.close()
    assert targets == ["ipv4:127.0.0.1:4711"]
