"""Ends all work of a session at the Spark server, and proves that it has ended.

A runner does this for its own session. For the session of a dead runner a janitor does it: a
process forked from the zygote, because a task executor never imports PySpark.

Spark Connect alone cannot tell that cancelled work has ended. Operations end before their tasks do,
and the server may report an operation as running although its thread ended long ago. Spark's
monitoring pages tell the truth about both, so this module reads them as well.
"""

import contextlib
import os
import re
import socket
import time
import urllib.error
from collections.abc import Set
from typing import Any

import grpc
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import GetStatusResponse

from stoker.engine.protocol import EndSession, RunnerEnd, SessionEnded, SessionNotEnded
from stoker.engine.python_workers import python_workers_at
from stoker.engine.reuse.connection import LoopbackChannel, open_session
from stoker.engine.spark_page import open_page

_POLL_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 20.0
_LEAST_TASK_SECONDS = 4.0
_THREAD_CHECK_AFTER_SECONDS = 1.0
_ENDED_STATES = frozenset(
    {
        GetStatusResponse.OperationStatus.OPERATION_STATE_UNKNOWN,
        GetStatusResponse.OperationStatus.OPERATION_STATE_SUCCEEDED,
        GetStatusResponse.OperationStatus.OPERATION_STATE_FAILED,
        GetStatusResponse.OperationStatus.OPERATION_STATE_CANCELLED,
    }
)


class UninterruptibleTasks(TimeoutError):
    """Tasks of Spark ignore their cancellation: Spark can only ask the code of a task to end."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"tasks of Spark still run {seconds:.0f} s after they were interrupted")


def serve_as_janitor(connection: socket.socket) -> None:
    end = RunnerEnd(connection)
    while (message := end.receive()) is not None:
        if not isinstance(message, EndSession):
            continue
        workers = ""
        try:
            session = open_session(LoopbackChannel(message.url))
            end_all_work(session, message.ui, message.uninterruptible_after)
            workers = python_workers_of(session, message.server_pid)
            session.stop()
        except (PySparkException, grpc.RpcError, OSError) as error:
            if not _is_closed_already(error):
                end.send(session_not_ended(message.session_id, error))
                continue
        end.send(SessionEnded(session_id=message.session_id, workers=workers))
    os._exit(0)


def session_not_ended(session_id: str, error: BaseException) -> SessionNotEnded:
    return SessionNotEnded(
        session_id=session_id,
        reason=f"{type(error).__name__}: {error}",
        uninterruptible=isinstance(error, UninterruptibleTasks),
    )


def end_all_work(session: Any, ui: str, uninterruptible_after: float) -> None:
    """Interrupt operations and stop streams of the session; return when no task of them is left.

    Raises UninterruptibleTasks after `uninterruptible_after` seconds, TimeoutError if it takes long
    for another reason.
    """
    began = time.monotonic()
    deadline = began + _LONGEST_WAIT_SECONDS
    session.interruptAll()
    run_ids = _stop_streams(session)
    check_threads_from = time.monotonic() + _THREAD_CHECK_AFTER_SECONDS
    while running := running_operations(session):
        now = time.monotonic()
        if now > check_threads_from and not running & executing_operations(ui):
            break
        if now > deadline:
            raise TimeoutError("Spark's work continues although it was interrupted")
        time.sleep(_POLL_SECONDS)
        session.interruptAll()
    # An operation may have started a stream just before it was interrupted.
    run_ids |= _stop_streams(session)
    # Operations end before the last of their tasks: Spark checks only every two seconds for Python
    # workers that it has to kill. So tasks get some time, however long the operations took.
    give_up_at = max(began + uninterruptible_after, time.monotonic() + _LEAST_TASK_SECONDS)
    while has_active_tasks(ui, {session.session_id, *run_ids}):
        if time.monotonic() > give_up_at:
            raise UninterruptibleTasks(time.monotonic() - began)
        if time.monotonic() > deadline:
            raise TimeoutError("tasks of Spark still run although they were interrupted")
        time.sleep(_POLL_SECONDS)


def _stop_streams(session: Any) -> set[str]:
    """Stop all streams; return their run ids once none of them can plan another batch."""
    run_ids = set()
    for query in session.streams.active:
        run_ids.add(str(query.runId))
        # The query may have ended by itself meanwhile.
        with contextlib.suppress(PySparkException):
            query.stop()
    return run_ids


def running_operations(session: Any) -> Set[str]:
    """Operations that the server calls running. It may report an ended one, but omits none."""
    # PySpark 4.3 has no public call for this.
    answer = session.client._get_operation_statuses()
    return {
        status.operation_id
        for status in answer.operation_statuses
        if status.state not in _ENDED_STATES
    }


def _is_closed_already(error: BaseException) -> bool:
    return "SESSION_CLOSED" in str(error) or "SESSION_NOT_FOUND" in str(error)


# Spark computes a query over a literal table in the driver, where the session is known.
STATE_QUERY = (
    "SELECT reflect('org.apache.spark.JobArtifactSet', 'getCurrentJobArtifactState') AS state "
    "FROM VALUES (1)"
)
_ID = re.compile(r"JobArtifactState\(([0-9a-f-]{36})")


def python_workers_of(session: Any, server_pid: int) -> str:
    """The mark of the session's Python workers; empty if there are none, or Spark cannot tell.

    Spark has no call for this, so a query reads it from Spark's internal state.
    """
    if not server_pid or not python_workers_at(server_pid):
        return ""
    try:
        return session_mark_in(str(session.sql(STATE_QUERY).collect()[0][0]))
    except PySparkException:
        return ""


def session_mark_in(state: str) -> str:
    found = _ID.search(state)
    return found.group(1) if found else ""


_ANSWER_SECONDS = 10.0
_EXECUTION_THREAD = "SparkConnectExecuteThread_opId="


def has_active_tasks(ui: str, owners: Set[str]) -> bool:
    """Whether tasks run in Spark jobs of one of these sessions or stream runs."""
    root = _application(ui)
    return any(
        attempt["numActiveTasks"] > 0
        for job in _get(f"{root}/jobs")
        if is_job_of(job, owners) and may_have_active_tasks(job)
        for stage in job["stageIds"]
        for attempt in _attempts_of_stage(f"{root}/stages/{stage}?details=false")
    )


def executing_operations(ui: str) -> frozenset[str]:
    """The operations of Spark Connect for which a thread of the server works right now.

    If a client releases an operation just when it fails, Spark reports it as running for ever; only
    the missing thread shows that it has ended.
    """
    threads = _get(f"{_application(ui)}/executors/driver/threads")
    return frozenset(
        name.removeprefix(_EXECUTION_THREAD)
        for thread in threads
        if (name := thread["threadName"]).startswith(_EXECUTION_THREAD)
    )


def is_job_of(job: dict[str, Any], owners: Set[str]) -> bool:
    marks = [job.get("jobGroup") or "", *(job.get("jobTags") or ())]
    return any(owner in mark for mark in marks for owner in owners)


def may_have_active_tasks(job: dict[str, Any]) -> bool:
    """A cancelled Spark job ends before its tasks; a job that succeeded has none left.

    Streams leave hundreds of successful jobs, and to read the stages of each would take seconds.
    """
    return bool(job["status"] != "SUCCEEDED" or job["numActiveTasks"] > 0)


def _application(ui: str) -> str:
    applications = _get(f"{ui}/api/v1/applications")
    return f"{ui}/api/v1/applications/{applications[0]['id']}"


def _attempts_of_stage(url: str) -> Any:
    try:
        return _get(url)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            # Spark has forgotten the stage, or it was never submitted.
            return []
        raise


def _get(url: str) -> Any:
    return open_page(url, seconds=_ANSWER_SECONDS)
