"""One session after the other over one line; nobody is at its other end."""

import uuid

import grpc
import pytest
from pyspark.sql.connect.session import SparkSession as ConnectSession

from stoker.engine.reuse.connection import ServerConnection


def _url() -> str:
    return f"sc://localhost:1/;token=none;user_id=nobody;session_id={uuid.uuid4()}"


def test_a_session_that_is_cleared_away_leaves_the_line_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # PySpark sets it for good.
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    line = ServerConnection()
    first = line.open(_url())
    channel = first.client._channel
    line.let_go(first)
    assert ConnectSession._get_default_session() is None
    first.client.close()
    second = line.open(_url())
    try:
        assert second.client._channel is channel
        assert second.session_id != first.session_id
        assert ConnectSession._get_default_session() is second
        with pytest.raises(grpc.RpcError):
            channel.unary_unary("/nobody/Answers")(b"", timeout=5)
    finally:
        line.let_go(second)
        channel.close()
