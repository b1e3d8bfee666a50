"""The line of a runner to its Spark server, over which one session may follow another."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession as ConnectSession

from stoker.engine.runner.one_call import skip_compression_question


class ServerConnection:
    def __init__(self) -> None:
        self._channel: Any = None

    def open(self, url: str) -> Any:
        """The first session opens the line, those after it take what is there."""
        session: Any
        if self._channel is None:
            session = SparkSession.builder.remote(url).create()
            self._channel = session.client._channel
        else:
            over = _OpenLine(url, self._channel)
            session = ConnectSession.builder.channelBuilder(over).create()
        skip_compression_question(session.client)
        return session

    def let_go(self, session: Any) -> None:
        """Of one that has ended: nobody is given it any more, and it leaves the line open."""
        # PySpark closes its channel when Python clears it away.
        session.client._channel = _NoLine()
        sessions: Any = ConnectSession
        sessions._default_session = None
        sessions._active_session.session = None


class _NoLine:
    def close(self) -> None:
        pass


class _OpenLine(DefaultChannelBuilder):
    def __init__(self, url: str, channel: Any) -> None:
        super().__init__(url)
        self._open = channel

    def toChannel(self) -> Any:
        return self._open
