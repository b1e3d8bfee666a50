"""What the kernel knows of processes: whose children they are, their memory, their environment.

Processes come and go while this reads: whatever cannot be read is not there any more.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STATE, _START_TIME, _ADDRESS_SPACE = 0, 19, 20
"""Places in /proc/PID/stat, counted from behind the command's name."""


def children_of(pid: int) -> list[int]:
    """Of all its threads."""
    children: list[int] = []
    tasks = f"/proc/{pid}/task"
    with suppress(OSError):
        for thread in os.listdir(tasks):
            # One that has just ended has left its children to another.
            with suppress(OSError):
                children += map(int, content_of(f"{tasks}/{thread}/children").split())
    return children


def content_of(path: str) -> bytes:
    """Without the costs of Python's own files: a JVM has hundreds of threads, and a process that
    was just forked pays for each object that it touches first."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while piece := os.read(file, 65536):
            content += piece
        return content
    finally:
        os.close(file)


def replace_content(path: str, content: bytes) -> None:
    """Of a file of the kernel's."""
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
    """With the process itself last, on whose end others may depend, this one among them."""
    with suppress(ProcessLookupError, PermissionError):
        # So that it starts no more of them.
        os.kill(pid, signal.SIGSTOP)
    for each in (*descendants_of(pid), pid):
        with suppress(ProcessLookupError, PermissionError):
            if each != os.getpid():
                os.kill(each, signal.SIGKILL)


def own_bytes(pid: int) -> int:
    """Resident memory that it shares with no file and no other mapping; 0 when it is gone.

    A forked process counts what it still shares with its parent, so compare with a first reading.
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
    """In ticks since the machine started: with the id, it names a process for good."""
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
    """The name of the file that it executes; empty when it is gone."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def is_about_to_begin(pid: int) -> bool:
    """A program that is being executed has no environment yet, for a moment."""
    fields = _stat(pid)
    return bool(fields) and fields[_STATE] in ("R", "D") and fields[_ADDRESS_SPACE] != "0"


def environment_of(pid: int) -> bytes:
    """Its first: a forked process has that of the process that was executed; empty if none."""
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
