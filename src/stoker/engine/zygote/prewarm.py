"""Runs PySpark's client and gRPC once in the zygote, so that each forked runner starts faster.

Python specializes code that has run a few times, PySpark caches what it has looked up, and gRPC
sets itself up with the first channel of a process. Runners inherit all of that, in memory that need
not be copied. Threads are not inherited, and a process that forks must have a single one: all
threads that prewarming starts have to end again.
"""

import gc
import os
import time
import uuid
from collections.abc import Callable
from typing import Any

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.proto import base_pb2
from pyspark.sql.connect.session import SparkSession

from stoker.engine.region.plan_paths import resolve_paths_of_clients
from stoker.engine.reuse.plans import runs_inside_spark
from stoker.engine.reuse.templates import start_as_copy
from stoker.engine.runner.pyspark_client import single_call, skip_compression_question

_TIMES = 12
"""Python specializes a function at its eighth call."""
_FAKE_SERVER = "sc://localhost:1/;token=none;user_id=nobody;session_id="
_UNUSED_ADDRESS = "127.0.0.1:1"
"""Never connected to: a channel connects with its first call."""
_MOST_POLLS = 200
_POLL_SECONDS = 0.02


def prewarm_spark() -> list[str]:
    """Run a small task against a fake server; return the calls that it made.

    No session, thread or connection is left.
    """
    calls: list[str] = []
    # Runners will resolve the paths in plans. This changes a class, so it comes first.
    resolve_paths_of_clients(None)
    for _ in range(_TIMES):
        channels = _FakeChannelBuilder(_FAKE_SERVER + str(uuid.uuid4()), calls)
        session: Any = SparkSession.builder.channelBuilder(channels).create()
        try:
            _play_task(session)
        finally:
            session.stop()
    return calls


def _play_task(session: Any) -> None:
    client = session.client
    skip_compression_question(client)
    start_as_copy(client, str(uuid.uuid4()))
    frame = session.range(10)
    runs_inside_spark(frame._plan.to_proto(client))
    with single_call(client):
        frame.write.format("noop").mode("overwrite").save()


class _FakeChannelBuilder(DefaultChannelBuilder):
    def __init__(self, url: str, calls: list[str]) -> None:
        super().__init__(url)
        self._calls = calls

    def toChannel(self) -> Any:
        return _FakeChannel(self._calls)


class _FakeChannel:
    """Answers every call at once with success."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Callable[..., Any]:
        return self._answering(method, lambda answer: answer)

    def unary_stream(self, method: str, *_: Any, **__: Any) -> Callable[..., Any]:
        return self._answering(method, lambda answer: iter([answer]))

    stream_unary = unary_unary

    def _answering(self, method: str, wrap: Callable[[Any], Any]) -> Callable[..., Any]:
        name = method.rpartition("/")[2]

        def answer(request: Any, **_: Any) -> Any:
            self._calls.append(name)
            return wrap(_answer(name, request))

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


def prewarm_grpc() -> bool:
    """Open and close a channel; return whether all threads of gRPC have ended.

    Only then may this process fork.
    """
    channel = grpc.insecure_channel(_UNUSED_ADDRESS)
    channel.unary_unary("/stoker/Prewarm")
    channel.close()
    del channel
    # gRPC ends its threads with the last object that needs them.
    gc.collect()
    return becomes_single_threaded(_count_threads)


def becomes_single_threaded(count_threads: Callable[[], int]) -> bool:
    """Wait until the threads of gRPC have ended, by polling; return False if they do not end."""
    for _ in range(_MOST_POLLS):
        if count_threads() == 1:
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _count_threads() -> int:
    return len(os.listdir("/proc/self/task"))
