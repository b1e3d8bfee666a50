"""Records of a local cluster's processes, which are recognized by pid and start time."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from stoker.core.errors import StartupFailed
from stoker.core.values import Value, decode_json
from stoker.osproc.atomic_file import write_atomically
from stoker.osproc.process_tree import all_processes, environment_of, start_time, value_in
from stoker.osproc.unix_socket import socket_in, url_of_socket
from stoker.processes.announcement import MASTER_FILE

MARK = "STOKER_LOCAL_CLUSTER"
"""Environment variable that every process of a local cluster inherits: its directory."""

STATE_FILE = "cluster.json"
_LAST_START_FILE = "last-start.json"
_ERROR_PREFIX = "Error: "
"""Prefix of the line in which a Stoker process says why it ends."""
_TAIL_LINES = 15
_POLL_SECONDS = 0.05


class ProcessRecord(Value):
    name: str
    pid: int
    started: int
    """Start time in kernel clock ticks; a later process with the same pid has another one."""
    log: str
    log_start: int = 0
    """Offset in the log at which the output of this instance begins."""

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started


def send(record: ProcessRecord, number: signal.Signals) -> None:
    if record.alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)


def wait_until_gone(records: Iterable[ProcessRecord], seconds: float) -> list[ProcessRecord]:
    """Wait for the end of the processes; returns those that still run after the timeout."""
    deadline = time.monotonic() + seconds
    left = [record for record in records if record.alive]
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        left = [record for record in left if record.alive]
    return left


def processes_of(directory: Path) -> list[ProcessRecord]:
    """Every process that descends from the cluster in this directory, by its environment."""
    found = []
    for pid in all_processes():
        if pid == os.getpid() or value_in(environment_of(pid), MARK) != str(directory):
            continue
        started = start_time(pid)
        if started is not None:
            found.append(ProcessRecord(name=_command(pid), pid=pid, started=started, log=""))
    return found


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return "?"
    return words.decode(errors="replace").strip()[:120]


class ClusterState(Value):
    masters: tuple[ProcessRecord, ...] = ()
    task_executors: tuple[ProcessRecord, ...] = ()
    zookeeper: tuple[ProcessRecord, ...] = ()
    high_availability: str | None = None
    """URL of the coordinator; None for the embedded one in the directory of the cluster."""

    @property
    def processes(self) -> tuple[ProcessRecord, ...]:
        return (*self.zookeeper, *self.masters, *self.task_executors)

    @property
    def alive(self) -> list[ProcessRecord]:
        return [record for record in self.processes if record.alive]

    @property
    def dead(self) -> list[ProcessRecord]:
        return [record for record in self.processes if not record.alive]


def read_state(directory: Path) -> ClusterState | None:
    """None when no cluster was started here, not even one that is dead now."""
    path = directory / STATE_FILE
    try:
        return decode_json(path.read_bytes(), ClusterState)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StartupFailed(
            f"the record of the local cluster {path} cannot be read: {error}; "
            "remove the file if no such cluster runs"
        ) from error


def write_state(directory: Path, state: ClusterState) -> None:
    content = msgspec.json.format(msgspec.json.encode(state), indent=2)
    write_atomically(directory / STATE_FILE, content, mode=0o600)


def remove_state(directory: Path) -> None:
    (directory / STATE_FILE).unlink(missing_ok=True)


class LastStart(Value):
    """How a local cluster was started last; the next start repeats it, unless told otherwise."""

    masters: int
    task_executors: int
    zookeeper: int = 0
    has_token: bool = True
    settings: dict[str, str] = {}
    """Options of the configuration as text, by key."""


def read_last_start(directory: Path) -> LastStart | None:
    """None if no cluster has become ready here, or its files were removed."""
    path = directory / _LAST_START_FILE
    try:
        return decode_json(path.read_bytes(), LastStart)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StartupFailed(
            f"{path}, which says how the local cluster was started last, cannot be read: {error}; "
            "remove the file, and give the options again"
        ) from error


def write_last_start(directory: Path, start: LastStart) -> None:
    # The settings may hold secrets.
    content = msgspec.json.format(msgspec.json.encode(start), indent=2)
    write_atomically(directory / _LAST_START_FILE, content, mode=0o600)


def url_of(directory: Path, master: ProcessRecord) -> str | None:
    """URL at which browsers and other tools reach the master; None while it does not answer."""
    address = _address(directory, master.name)
    return address["rest_url"] if address.get("pid") == str(master.pid) else None


def socket_of(directory: Path, name: str) -> Path:
    """The socket at which a master of the cluster answers clients of the same user.

    Its directory is private, so nobody else can listen there, whatever has become of the master.
    """
    return directory / "sockets" / f"{name}.socket"


def is_socket_of(directory: Path, url: str) -> bool:
    """Whether the URL names a socket of the cluster."""
    path = socket_in(url)
    return path is not None and path == socket_of(directory, path.stem)


def client_urls_of(directory: Path, state: ClusterState) -> list[str]:
    """URLs at which clients of the same user reach the masters that answer."""
    return [
        url_of_socket(socket_of(directory, master.name))
        for master in state.masters
        if master.alive and url_of(directory, master)
    ]


def client_url_for(directory: Path, url: str) -> str:
    """The same master, named by its socket if it is one of the cluster."""
    state = read_state(directory) or ClusterState()
    for master in state.masters:
        if master.alive and url_of(directory, master) == url:
            return url_of_socket(socket_of(directory, master.name))
    return url


def previous_port_of(directory: Path, name: str) -> str | None:
    """Port of a killed master, from the address file that it left."""
    return _address(directory, name).get("rest_url", "").rpartition(":")[2] or None


def urls_of(directory: Path, state: ClusterState) -> list[str]:
    urls = [url_of(directory, master) for master in state.masters if master.alive]
    return [url for url in urls if url]


def home_directory() -> Path:
    """Where the local clusters of this user keep their files."""
    home = os.environ.get("STOKER_HOME")
    return (Path(home) if home else Path("~/.stoker")).expanduser().absolute()


def kept_checkpoints() -> Path:
    """Where the last checkpoints of ended jobs are kept.

    Clusters for one command and the cluster in the default directory share it, so that a job that
    ran on the one continues on the other.
    """
    return home_directory() / "checkpoints"


def default_directory() -> Path:
    """Directory of the local cluster that commands refer to unless they name another one."""
    return home_directory() / "local"


def surrounding_directory() -> Path | None:
    """Directory of the local cluster that runs this process; None if no local cluster does."""
    directory = os.environ.get(MARK)
    return Path(directory) if directory else None


def local_directories() -> list[Path]:
    """The local clusters of this program: the one that runs it, and the default one."""
    return list(filter(None, (surrounding_directory(), default_directory())))


def _address(directory: Path, name: str) -> dict[str, str]:
    try:
        content = json.loads((directory / "work" / name / MASTER_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return {key: str(value) for key, value in content.items()}


def reason_in(record: ProcessRecord) -> str:
    """The error message of the process, or the end of its log if it has none."""
    try:
        with Path(record.log).open("rb") as log:
            log.seek(record.log_start)
            lines = log.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"its log {record.log} cannot be read: {error.strerror or error}"
    starts = [number for number, line in enumerate(lines) if line.startswith(_ERROR_PREFIX)]
    if starts:
        return "\n".join(lines[starts[-1] :]).removeprefix(_ERROR_PREFIX).strip()
    if not lines:
        return f"it wrote nothing to {record.log}"
    tail = "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:])
    return f"the end of {record.log} is\n{tail}"
