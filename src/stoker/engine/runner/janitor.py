"""Ends what a dead runner left at the Spark server, whose work goes on without its client.

Runs in a process forked from the zygote, because a task executor never imports PySpark.
"""

import contextlib
import os
import socket
import time
from collections.abc import Set
from typing import Any

import grpc
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.proto import GetStatusResponse

from stoker.engine.protocol import EndSession, RunnerEnd, SessionEnded, SessionNotEnded
from stoker.engine.runner.python_workers import workers_of
from stoker.engine.runner.spark_tasks import executing_operations, has_active_tasks

_POLL_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 20.0
_LEAST_HEARING_SECONDS = 4.0
_UNTIL_A_THREAD_IS_MISSED_SECONDS = 1.0
_ENDED_STATES = frozenset(
    {
        GetStatusResponse.OperationStatus.OPERATION_STATE_UNKNOWN,
        GetStatusResponse.OperationStatus.OPERATION_STATE_SUCCEEDED,
        GetStatusResponse.OperationStatus.OPERATION_STATE_FAILED,
        GetStatusResponse.OperationStatus.OPERATION_STATE_CANCELLED,
    }
)


class TasksAreDeaf(TimeoutError):
    """Spark asks a task to end, but it is the task's code that must look whether it was asked."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"tasks of Spark go on {seconds:.0f} s after they were interrupted")


def serve_as_janitor(connection: socket.socket) -> None:
    end = RunnerEnd(connection)
    while (message := end.receive()) is not None:
        if not isinstance(message, EndSession):
            continue
        workers = ""
        try:
            session = SparkSession.builder.remote(message.url).create()
            end_all_work(session, message.ui, message.deaf_after)
            workers = workers_of(session, message.server_pid)
            session.stop()
        except (PySparkException, grpc.RpcError, OSError) as error:
            if not _is_closed_already(error):
                end.send(not_ended(message.session_id, error))
                continue
        end.send(SessionEnded(session_id=message.session_id, workers=workers))
    os._exit(0)


def not_ended(session_id: str, error: BaseException) -> SessionNotEnded:
    return SessionNotEnded(
        session_id=session_id,
        reason=f"{type(error).__name__}: {error}",
        deaf=isinstance(error, TasksAreDeaf),
    )


def end_all_work(session: Any, ui: str, deaf_after: float) -> None:
    """Interrupt operations and stop streams of the session; returns when none is left."""
    began = time.monotonic()
    deadline = began + _LONGEST_WAIT_SECONDS
    session.interruptAll()
    run_ids = _stop_streams(session)
    doubtful_since = time.monotonic() + _UNTIL_A_THREAD_IS_MISSED_SECONDS
    while running := running_operations(session):
        now = time.monotonic()
        if now > doubtful_since and not running & executing_operations(ui):
            break
        if now > deadline:
            raise TimeoutError("Spark's work goes on although it was interrupted")
        time.sleep(_POLL_SECONDS)
        session.interruptAll()
    # An operation that was interrupted may just have begun one.
    run_ids |= _stop_streams(session)
    # Operations end before the last of their tasks do: Spark looks only every two seconds for
    # Python workers that it must kill. So tasks have a while, however long operations took.
    deaf_at = max(began + deaf_after, time.monotonic() + _LEAST_HEARING_SECONDS)
    while has_active_tasks(ui, {session.session_id, *run_ids}):
        if time.monotonic() > deaf_at:
            raise TasksAreDeaf(time.monotonic() - began)
        if time.monotonic() > deadline:
            raise TimeoutError("tasks of Spark go on although they were interrupted")
        time.sleep(_POLL_SECONDS)


def _stop_streams(session: Any) -> set[str]:
    """By their runs; returns when no batch of theirs is planned any more."""
    run_ids = set()
    for query in session.streams.active:
        run_ids.add(str(query.runId))
        # A query that ended by itself meanwhile is what we want.
        with contextlib.suppress(PySparkException):
            query.stop()
    return run_ids


def running_operations(session: Any) -> Set[str]:
    """Those of which the server says so; it is not always right, but never too early."""
    # PySpark 4.3 has no public call for this yet.
    answer = session.client._get_operation_statuses()
    return {
        status.operation_id
        for status in answer.operation_statuses
        if status.state not in _ENDED_STATES
    }


def _is_closed_already(error: BaseException) -> bool:
    return "SESSION_CLOSED" in str(error) or "SESSION_NOT_FOUND" in str(error)
