"""Runs a command under a supervisor: when it has ended, nothing that it started is left."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_KILL_SECONDS = 10.0


def supervised_command(*command: str, grace: float) -> list[str]:
    """`grace`: seconds from SIGTERM until all processes of the command are killed."""
    supervisor = [sys.executable, "-m", "stoker.osproc.supervisor", str(os.getpid()), f"{grace:g}"]
    return [*supervisor, "--", *command]


async def run_supervised(
    *command: str,
    environment: Mapping[str, str],
    output: BinaryIO,
    seconds: float,
    directory: Path | None = None,
) -> int:
    """Run to the end and return the exit code, negative for a signal; TimeoutError if it is late.

    In all cases no process of the command is left, daemons included.
    """
    process = await asyncio.create_subprocess_exec(
        *supervised_command(*command, grace=0),
        cwd=directory,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            return await process.wait()
    finally:
        if process.returncode is None:
            await asyncio.shield(asyncio.create_task(_kill(process), name="kill-supervised"))


async def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGUSR1)
    with suppress(TimeoutError):
        async with asyncio.timeout(_KILL_SECONDS):
            await process.wait()
            return
    # The kernel kills the command with its supervisor.
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
