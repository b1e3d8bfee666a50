"""The runner's connection to its Spark server, over which one session can follow another."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession as ConnectSession

from stoker.engine.runner.pyspark_client import skip_compression_question


class ServerConnection:
    def __init__(self) -> None:
        self._channel: Any = None

    def open(self, url: str) -> Any:
        """Open a session; the first one opens the connection, and later ones use it."""
        session: Any
        if self._channel is None:
            session = SparkSession.builder.remote(url).create()
            self._channel = session.client._channel
        else:
            builder = _ExistingChannel(url, self._channel)
            session = ConnectSession.builder.channelBuilder(builder).create()
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
