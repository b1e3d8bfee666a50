"""Processes of a local cluster: recognized again by pid and start time, stopped, searched for."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from stoker.core.values import Value

MARK = "STOKER_LOCAL_CLUSTER"
"""Environment variable that every process of a local cluster inherits: its directory."""

_POLL_SECONDS = 0.05


class ProcessRecord(Value):
    name: str
    pid: int
    started: int
    """The kernel's clock ticks at its start, so that a reused pid is not mistaken for it."""
    log: str
    log_start: int = 0
    """Where in the log this life of the process begins."""

    @property
    def alive(self) -> bool:
        return start_time_of(self.pid) == self.started


def start_time_of(pid: int) -> int | None:
    """None for a process that is gone or only waits to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name stands in parentheses and may hold anything, so fields count from its end.
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])


def send(record: ProcessRecord, number: signal.Signals) -> None:
    if record.alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)


def wait_until_gone(records: Iterable[ProcessRecord], seconds: float) -> list[ProcessRecord]:
    """Those that are still there when the time is over."""
    deadline = time.monotonic() + seconds
    left = [record for record in records if record.alive]
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        left = [record for record in left if record.alive]
    return left


def processes_of(directory: Path) -> list[ProcessRecord]:
    """Every process that descends from the cluster in this directory, by its environment."""
    mark = f"{MARK}={directory}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        started = start_time_of(int(entry.name))
        if started is not None and mark in environment.split(b"\0"):
            found.append(
                ProcessRecord(name=_command(entry), pid=int(entry.name), started=started, log="")
            )
    return found


def _command(entry: Path) -> str:
    try:
        words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "?"
    return words.strip()[:120]
