"""Asking Spark's monitoring whether tasks still run, which Spark Connect does not tell."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Set
from typing import Any

_ANSWER_SECONDS = 10.0
_BLIND_WAIT_SECONDS = 2.5
"""Two seconds until Spark looks for workers to kill, and the time that the kill takes."""

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The engine's page is on this machine: a proxy of the environment would not find it."""


def has_active_tasks(ui: str, owners: Set[str]) -> bool:
    """Whether tasks run in jobs that name one of these sessions or queries.

    Without the web page there is nobody to ask: then this waits until Spark must have ended them.
    """
    if not ui:
        time.sleep(_BLIND_WAIT_SECONDS)
        return False
    applications = _get(f"{ui}/api/v1/applications")
    root = f"{ui}/api/v1/applications/{applications[0]['id']}"
    return any(
        attempt["numActiveTasks"] > 0
        for job in _get(f"{root}/jobs")
        if is_owned(job, owners) and may_have_tasks(job)
        for stage in job["stageIds"]
        for attempt in _get(f"{root}/stages/{stage}?details=false")
    )


def is_owned(job: dict[str, Any], owners: Set[str]) -> bool:
    marks = [job.get("jobGroup") or "", *(job.get("jobTags") or ())]
    return any(owner in mark for mark in marks for owner in owners)


def may_have_tasks(job: dict[str, Any]) -> bool:
    """A cancelled job ends before its tasks do; one that succeeded had no more of them.

    Streams leave hundreds of those, and to ask for the stages of each takes seconds.
    """
    return bool(job["status"] != "SUCCEEDED" or job["numActiveTasks"] > 0)


def _get(url: str) -> Any:
    try:
        with _direct.open(url, timeout=_ANSWER_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            # Too old to be remembered, or a stage that was never submitted.
            return []
        raise
