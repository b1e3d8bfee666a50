"""Processes as /proc shows them: their children, memory, start time and environment.

Processes come and go while this module reads: what cannot be read is gone, and counts as nothing.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STATE, _START_TIME, _ADDRESS_SPACE = 0, 19, 20
"""Indexes of fields in /proc/PID/stat, counted after the name of the command."""


def children_of(pid: int) -> list[int]:
    """The children of all threads of the process."""
    children: list[int] = []
    tasks = f"/proc/{pid}/task"
    with suppress(OSError):
        for thread in os.listdir(tasks):
            # A thread that has just ended has left its children to another one.
            with suppress(OSError):
                children += map(int, content_of(f"{tasks}/{thread}/children").split())
    return children


def content_of(path: str) -> bytes:
    """Read a file without the cost of Python's file objects: a JVM has hundreds of threads, and a
    freshly forked process copies a page of memory for each object that it touches."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while piece := os.read(file, 65536):
            content += piece
        return content
    finally:
        os.close(file)


def replace_content(path: str, content: bytes) -> None:
    """Write to a file of the kernel, such as one below /proc."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, content)
    finally:
        os.close(file)


def descendants_of(pid: int) -> list[int]:
    found: list[int] = []
    waiting = children_of(pid)
    while waiting:
        child = waiting.pop()
        if child not in found:
            found.append(child)
            waiting += children_of(child)
    return found


def kill_tree(pid: int) -> None:
    """Kill a process and its descendants, the process last: others may wait for its end.

    Spares the calling process if that is a descendant.
    """
    with suppress(ProcessLookupError, PermissionError):
        # A stopped process starts no more children.
        os.kill(pid, signal.SIGSTOP)
    for each in (*descendants_of(pid), pid):
        with suppress(ProcessLookupError, PermissionError):
            if each != os.getpid():
                os.kill(each, signal.SIGKILL)


def own_bytes(pid: int) -> int:
    """Resident anonymous memory of the process; 0 when it is gone.

    For a forked process this includes what it still shares with its parent, so compare it with a
    first reading.
    """
    try:
        fields = content_of(f"/proc/{pid}/statm").split()
        return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0


def resident_bytes(pid: int) -> int:
    try:
        return int(content_of(f"/proc/{pid}/statm").split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0


def start_time(pid: int) -> int | None:
    """Clock ticks since boot; with the id this identifies a process until the machine restarts.

    None when the process is gone or a zombie.
    """
    fields = _stat(pid)
    return int(fields[_START_TIME]) if fields and fields[_STATE] not in ("Z", "X") else None


def _stat(pid: int) -> list[str]:
    try:
        return content_of(f"/proc/{pid}/stat").decode(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def all_processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def program_of(pid: int) -> str:
    """File name of the program that the process executes; empty when it is gone."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def is_about_to_begin(pid: int) -> bool:
    """Whether the process is in the middle of exec, when its environment cannot be read yet."""
    fields = _stat(pid)
    return bool(fields) and fields[_STATE] in ("R", "D") and fields[_ADDRESS_SPACE] != "0"


def environment_of(pid: int) -> bytes:
    """The environment with which the program was executed, which a forked process shares; empty
    when there is none."""
    try:
        return content_of(f"/proc/{pid}/environ")
    except OSError:
        return b""


def value_in(environment: bytes, name: str) -> str | None:
    prefix = f"{name}=".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry.removeprefix(prefix).decode(errors="replace")
    return None
