"""What is known of a local cluster from the files in its directory; cheap to read."""

import json
import os
from pathlib import Path

import msgspec

from stoker.core.errors import StartupFailed
from stoker.core.values import Value, decode_json
from stoker.osproc.atomic_file import write_atomically
from stoker.processes.local.cluster_process import ProcessRecord

STATE_FILE = "cluster.json"
_ADDRESS_FILE = "master.json"


class ClusterState(Value):
    masters: tuple[ProcessRecord, ...] = ()
    task_executors: tuple[ProcessRecord, ...] = ()
    zookeeper: tuple[ProcessRecord, ...] = ()
    high_availability: str | None = None
    """The coordinator's URL; None is the embedded one in the cluster's own directory."""

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
    """None when there is no cluster, not even a dead one."""
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
    write_atomically(directory / STATE_FILE, content)


def remove_state(directory: Path) -> None:
    (directory / STATE_FILE).unlink(missing_ok=True)


def url_of(directory: Path, master: ProcessRecord) -> str | None:
    """Where this life of the master answers; None while it does not."""
    address = _address(directory, master.name)
    return address["rest_url"] if address.get("pid") == str(master.pid) else None


def former_port_of(directory: Path, name: str) -> str | None:
    """The port of a master that died without taking its address along."""
    return _address(directory, name).get("rest_url", "").rpartition(":")[2] or None


def urls_of(directory: Path, state: ClusterState) -> list[str]:
    urls = [url_of(directory, master) for master in state.masters if master.alive]
    return [url for url in urls if url]


def default_directory() -> Path:
    home = os.environ.get("STOKER_HOME")
    return (Path(home) if home else Path("~/.stoker")).expanduser().absolute() / "local"


def _address(directory: Path, name: str) -> dict[str, str]:
    try:
        content = json.loads((directory / "work" / name / _ADDRESS_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return {key: str(value) for key, value in content.items()}
