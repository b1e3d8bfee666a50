"""Masters and task executors as separate processes, over the embedded coordinator."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from builders import wait_until
from stoker.core.failpoints import ENVIRONMENT_VARIABLE

PATIENCE = 60.0
STOKER = ("-m", "stoker.cli.main")
WITHOUT_SPARK = (str(Path(__file__).parent.parent / "resources" / "light_executor.py"),)


@contextmanager
def process_of(
    folder: Path,
    kind: str,
    name: str,
    *,
    settings: Mapping[str, str] | None = None,
    program: tuple[str, ...] = STOKER,
    failpoint: str = "",
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is killed at the end if it still runs; its log is in the folder."""
    owner = "jobmanager" if kind == "master" else "taskmanager"
    given = {
        "high-availability.storageDir": str(folder / "storage"),
        "process.working-dir": str(folder / "work"),
        f"{owner}.resource-id": name,
        "rest.bind-port": "0",
        **(settings or {}),
    }
    options = [part for key, value in given.items() for part in ("-D", f"{key}={value}")]
    environment = {**os.environ, "HOME": str(folder), ENVIRONMENT_VARIABLE: failpoint}
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, *program, kind, *options], env=environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)


def url_of(folder: Path, name: str, process: "subprocess.Popen[bytes]") -> str:
    """URL of a master, as soon as it answers."""
    path = folder / "work" / name / "master.json"

    def is_written() -> bool:
        assert process.poll() is None, (folder / f"{name}.log").read_text()
        return path.exists() and json.loads(path.read_text())["pid"] == process.pid

    wait_until(is_written, f"master {name} answers", PATIENCE)
    return str(json.loads(path.read_text())["rest_url"])
