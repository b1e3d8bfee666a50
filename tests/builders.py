"""Builders of test values, and functions that wait; all suites share them.

A test names only the fields that matter to it; all other fields of a job have harmless defaults.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from stoker.core.graph import FormatRead, FormatWrite, JobGraph, JobType, Sink, Source, Vertex
from stoker.core.ids import JobId
from stoker.core.replacements import Replacement, ReplacementKind
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.testing.virtual_time import run_virtual

JOB_ID = JobId("0" * 32)
OLD, NEW, BACK = JobId("a" * 32), JobId("b" * 32), JobId("c" * 32)
"""A job that is replaced, its new version, and its old version if that has to return."""
NOOP = FormatWrite(format="noop")
ODD_NAME = 'it\'s a "näme" 100%25 $HOME #1?, a=b'
"""Name of a directory with what shells, URLs, Java and Spark give a meaning to."""


def build_graph(*vertices: Vertex, **fields: Any) -> JobGraph:
    """A job graph; without `vertices`, it reads a Parquet file and discards the rows."""
    default_vertices = (
        Source(name="in", read=FormatRead(format="parquet", path="/in")),
        Sink(name="out", input="in", write=NOOP),
    )
    facts = {"job_id": JOB_ID, "name": "job", "vertices": vertices or default_vertices}
    return JobGraph(**(facts | fields))


def build_streaming_vertices(source: str = "in", *sinks: str) -> tuple[Vertex, ...]:
    """A streaming source and its sinks ("out", if none is named)."""
    return (
        Source(name=source, read=FormatRead(format="rate"), streaming=True),
        *(
            Sink(name=name, input=source, write=NOOP, trigger="1 second")
            for name in sinks or ("out",)
        ),
    )


def build_details(status: JobStatus = JobStatus.RUNNING, **fields: Any) -> JobDetails:
    """The details of a batch job in `status`."""
    facts = {
        "job_id": JOB_ID,
        "name": "job",
        "job_type": JobType.BATCH,
        "status": status,
        "timestamps": {},
        "start": 0,
    }
    return JobDetails(**(facts | fields))


def build_replacement(**fields: Any) -> Replacement:
    """An upgrade of the job `OLD` to `NEW` that has just begun."""
    facts = {
        "job_id": OLD,
        "trigger_id": "d" * 32,
        "kind": ReplacementKind.UPGRADE,
        "digest": "",
        "new_id": NEW,
        "back_id": BACK,
        "directory": "/saved",
        "order": "0",
        "began": 0,
        "changed": 0,
    }
    return Replacement(**(facts | fields))


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test on virtual time."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        run_virtual(lambda: test(**fixtures))

    return run


async def wait_until_quiet(seconds: float = 2) -> None:
    """Wait, on virtual time, until all effects of the last step have happened."""
    await asyncio.sleep(seconds)


def wait_until(
    condition: Callable[[], bool],
    what: str = "the condition",
    seconds: float = 60,
    *,
    despite: tuple[type[Exception], ...] = (),
) -> None:
    """Block until other processes or threads make `condition` true; fail after `seconds`.

    If `condition` raises an error of a kind in `despite`, it counts as not yet true.
    """
    deadline = time.monotonic() + seconds
    while True:
        reason = ""
        try:
            if condition():
                return
        except despite as error:
            reason = f" ({error})"
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}{reason}"
        time.sleep(0.05)


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]],
    what: str = "the condition",
    seconds: float = 60,
) -> None:
    """Wait until `condition`, which may be asynchronous, is true; fail after `seconds`."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        answer = condition()
        if await answer if isinstance(answer, Awaitable) else answer:
            return
        assert asyncio.get_running_loop().time() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)
