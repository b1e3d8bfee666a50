"""The line of a runner to its Spark server, over which one session may follow another."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession as ConnectSession

from stoker.engine.one_call import skip_a_question


class SessionLine:
    def __init__(self) -> None:
        self._channel: _KeptChannel | None = None

    def open(self, url: str) -> Any:
        """The first session opens the line, those after it take what is there."""
        session: Any
        if self._channel is None:
            session = SparkSession.builder.remote(url).create()
            self._channel = _KeptChannel(session.client._channel)
            session.client._channel = self._channel
        else:
            over = _OpenLine(url, self._channel)
            session = ConnectSession.builder.channelBuilder(over).create()
        skip_a_question(session.client)
        return session


def forget_session() -> None:
    """Whoever asks PySpark for the session of this process is not given the last one any more."""
    sessions: Any = ConnectSession
    sessions._default_session = None
    sessions._active_session.session = None


class _KeptChannel:
    """A session closes its channel when Python clears it away; the next one needs it still."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def close(self) -> None:
        pass


class _OpenLine(DefaultChannelBuilder):
    def __init__(self, url: str, channel: _KeptChannel) -> None:
        super().__init__(url)
        self._open = channel

    def toChannel(self) -> Any:
        return self._open
