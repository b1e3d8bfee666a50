"""How soon a master answers after its start, and how much memory it uses when idle."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from bench.measure import Sample, Verdict, environment_of_commands, rounds
from stoker.processes.announcement import MASTER_FILE

ROUNDS = rounds(5)
IDLE_SECONDS = 5


def run() -> list[Verdict]:
    latencies: list[float] = []
    sizes: list[float] = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
            latency, size = _start_once(Path(folder))
            latencies.append(latency * 1000)
            sizes.append(size)
    first = Sample("master, from start to first answer of /overview", tuple(latencies))
    idle = Sample("idle master, resident memory", tuple(sizes), "MB")
    print(f"{first}\n{idle}")
    return [
        Verdict("a master answers after", first.median / 1000, 2.0, "s"),
        Verdict("an idle master uses", idle.median, 120, "MB"),
    ]


def _start_once(folder: Path) -> tuple[float, float]:
    begin = time.perf_counter()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "stoker.cli.main", "master"),
            f"-Dhigh-availability.storageDir={folder}/storage",
            f"-Dprocess.working-dir={folder}/work",
            "-Djobmanager.resource-id=bench",
            "-Drest.bind-port=0",
        ],
        env=environment_of_commands(),
        stderr=subprocess.DEVNULL,
    )
    try:
        url = _wait_for_url(process, folder / "work" / "bench" / MASTER_FILE)
        while True:
            with contextlib.suppress(urllib.error.HTTPError):
                urllib.request.urlopen(f"{url}/overview").read()
                break
            time.sleep(0.01)
        latency = time.perf_counter() - begin
        time.sleep(IDLE_SECONDS)
        return latency, _resident_megabytes(process.pid)
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_for_url(process: subprocess.Popen[bytes], path: Path) -> str:
    while not path.exists():
        assert process.poll() is None, "the master has exited"
        time.sleep(0.01)
    return str(json.loads(path.read_text())["rest_url"])


def _resident_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
