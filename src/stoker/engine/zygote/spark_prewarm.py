"""PySpark's client made to speak with nobody, before runners are forked from this process.

Python runs code faster that has run a few times, and PySpark keeps what it has looked up once. Here
that is done for all runners: what it leaves in memory is theirs too, and need not be copied.
"""

import uuid
from collections.abc import Callable
from typing import Any

from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.proto import base_pb2
from pyspark.sql.connect.session import SparkSession

from stoker.engine.reuse.plans import runs_inside_spark
from stoker.engine.reuse.templates import begin_as_copy
from stoker.engine.runner.one_call import single_call, skip_compression_question

_TIMES = 12
"""Python looks at what a function does when it is called for the eighth time."""
_NOBODY = "sc://localhost:1/;token=none;user_id=nobody;session_id="


def prewarm_spark() -> list[str]:
    """What a plain task does; gives the calls. No session, thread or connection is left of it."""
    calls: list[str] = []
    for _ in range(_TIMES):
        nobody = _Nobody(_NOBODY + str(uuid.uuid4()), calls)
        session: Any = SparkSession.builder.channelBuilder(nobody).create()
        try:
            _play_task(session)
        finally:
            session.stop()
    return calls


def _play_task(session: Any) -> None:
    client = session.client
    skip_compression_question(client)
    begin_as_copy(client, str(uuid.uuid4()))
    frame = session.range(10)
    runs_inside_spark(frame._plan.to_proto(client))
    with single_call(client):
        frame.write.format("noop").mode("overwrite").save()


class _Nobody(DefaultChannelBuilder):
    def __init__(self, url: str, calls: list[str]) -> None:
        super().__init__(url)
        self._calls = calls

    def toChannel(self) -> Any:
        return _PlayedChannel(self._calls)


class _PlayedChannel:
    """Answers by itself, at once, that all is done."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Callable[..., Any]:
        return self._answering(method, lambda answer: answer)

    def unary_stream(self, method: str, *_: Any, **__: Any) -> Callable[..., Any]:
        return self._answering(method, lambda answer: iter([answer]))

    stream_unary = unary_unary

    def _answering(self, method: str, give: Callable[[Any], Any]) -> Callable[..., Any]:
        name = method.rpartition("/")[2]

        def answer(request: Any, **_: Any) -> Any:
            self._calls.append(name)
            return give(_answer(name, request))

        return answer

    def close(self) -> None:
        pass


def _answer(name: str, request: Any) -> Any:
    session = request.session_id
    if name == "ExecutePlan":
        return base_pb2.ExecutePlanResponse(
            session_id=session,
            operation_id=request.operation_id,
            result_complete=base_pb2.ExecutePlanResponse.ResultComplete(),
        )
    if name == "CloneSession":
        return base_pb2.CloneSessionResponse(session_id=session)
    return getattr(base_pb2, f"{name}Response")(session_id=session)
