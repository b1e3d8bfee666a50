"""The runner's connection to its Spark server, over which one session can follow another.

PySpark sends a token over a channel without TLS to the host name `localhost` only. On most machines
that name means ::1 first and 127.0.0.1 second. Spark listens at 127.0.0.1 alone, so another user of
the machine could listen on the same port of ::1 and collect the token, with which he could run code
as the user of the cluster. `LoopbackChannel` therefore connects to 127.0.0.1, whatever the name
means. User code that makes connections of its own is protected by the server, which holds the
port of ::1 (`connect/loopback_guard.py`).
"""

import os
from typing import Any

from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession as ConnectSession

from stoker.engine.runner.pyspark_client import skip_compression_question


class LoopbackChannel(DefaultChannelBuilder):
    """A channel to the Spark server on this machine, for a URL with the host name localhost."""

    @property
    def endpoint(self) -> str:
        return f"ipv4:127.0.0.1:{self._port}"


def open_session(channel: DefaultChannelBuilder) -> Any:
    # As PySpark does for a URL: code that asks for a session later gets one of Spark Connect.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    return ConnectSession.builder.channelBuilder(channel).create()


class ServerConnection:
    def __init__(self) -> None:
        self._channel: Any = None

    def open(self, url: str) -> Any:
        """Open a session; the first one opens the connection, and later ones use it."""
        if self._channel is None:
            session = open_session(LoopbackChannel(url))
            self._channel = session.client._channel
        else:
            session = open_session(_ExistingChannel(url, self._channel))
        skip_compression_question(session.client)
        return session

    def release(self, session: Any) -> None:
        """Detach an ended session, so that PySpark neither reuses it nor closes the connection."""
        # PySpark closes a client's channel when Python collects the client.
        session.client._channel = _NoChannel()
        sessions: Any = ConnectSession
        sessions._default_session = None
        sessions._active_session.session = None


class _NoChannel:
    def close(self) -> None:
        pass


class _ExistingChannel(DefaultChannelBuilder):
    def __init__(self, url: str, channel: Any) -> None:
        super().__init__(url)
        self._existing = channel

    def toChannel(self) -> Any:
        return self._existing
