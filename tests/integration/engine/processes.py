"""Inspects and cancels the processes that tasks run in."""

import asyncio
import json
import os
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from integration.engine.bench import LaunchedTask
from stoker.core.states import ExecutionState
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.spark_page import without_token
from stoker.osproc.process_tree import children_of

PATIENCE = 120
"""Seconds that a busy machine may take where the product promises no time."""


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def runner_of(engine: ConnectEngine, launched: LaunchedTask) -> int:
    """Process id of the runner that works in the task's directory."""
    for pid in children_of(int(engine.description["zygote-pid"])):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == str(launched.directory):
                return pid
        except OSError:
            continue
    raise LookupError("no runner works in the directory of the task")


def is_writing(ui: str) -> bool:
    """Whether a task of Spark, on any executor, writes rows to the noop sink.

    `ui` is the URL of the Spark server's page.
    """
    [application] = json.loads(read_page(f"{ui}/api/v1/applications"))
    root = f"{ui}/api/v1/applications/{application['id']}/executors"
    return any(
        b"NoopWriter" in read_page(f"{root}/{each['id']}/threads")
        for each in json.loads(read_page(root))
    )


def read_page(url: str) -> bytes:
    """A page of Spark; the URL holds the token for it, as that of a server does."""
    request = urllib.request.Request(without_token(url))
    request.add_header("Authorization", f"Bearer {urlsplit(url).password}")
    with urllib.request.urlopen(request, timeout=30) as answer:
        content: bytes = answer.read()
    return content


async def cancel_within_ten_seconds(launched: LaunchedTask) -> None:
    async with asyncio.timeout(10):
        await launched.running.cancel()
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.CANCELED, outcome
    assert outcome.failure is None
