"""Asking Spark's monitoring what still runs, which Spark Connect does not tell truly."""

import json
import urllib.error
import urllib.request
from collections.abc import Set
from typing import Any

_ANSWER_SECONDS = 10.0
_EXECUTION_THREAD = "SparkConnectExecuteThread_opId="

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The engine's page is on this machine: a proxy of the environment would not find it."""


def has_active_tasks(ui: str, owners: Set[str]) -> bool:
    """Whether tasks run in jobs that name one of these sessions or queries."""
    root = _application(ui)
    return any(
        attempt["numActiveTasks"] > 0
        for job in _get(f"{root}/jobs")
        if is_owned(job, owners) and may_have_tasks(job)
        for stage in job["stageIds"]
        for attempt in _get(f"{root}/stages/{stage}?details=false")
    )


def executing_operations(ui: str) -> frozenset[str]:
    """The operations of Spark Connect that a thread of the server works for at this moment.

    What the server answers about an operation may be wrong for ever: when a client lets go of it
    in the moment in which it fails, Spark calls it running although its thread has ended.
    """
    threads = _get(f"{_application(ui)}/executors/driver/threads")
    return frozenset(
        name.removeprefix(_EXECUTION_THREAD)
        for thread in threads
        if (name := thread["threadName"]).startswith(_EXECUTION_THREAD)
    )


def is_owned(job: dict[str, Any], owners: Set[str]) -> bool:
    marks = [job.get("jobGroup") or "", *(job.get("jobTags") or ())]
    return any(owner in mark for mark in marks for owner in owners)


def may_have_tasks(job: dict[str, Any]) -> bool:
    """A cancelled job ends before its tasks do; one that succeeded had no more of them.

    Streams leave hundreds of those, and to ask for the stages of each takes seconds.
    """
    return bool(job["status"] != "SUCCEEDED" or job["numActiveTasks"] > 0)


def _application(ui: str) -> str:
    applications = _get(f"{ui}/api/v1/applications")
    return f"{ui}/api/v1/applications/{applications[0]['id']}"


def _get(url: str) -> Any:
    try:
        with _direct.open(url, timeout=_ANSWER_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            # Too old to be remembered, or a stage that was never submitted.
            return []
        raise
