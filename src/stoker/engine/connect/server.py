"""One life of a Spark Connect server: a JVM below this process, and dies with it."""

import asyncio
import importlib.util
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import StartupFailed
from stoker.core.failpoints import failpoint
from stoker.engine.connect.watchdog_client import Place, WardenLink, start_guarded
from stoker.engine.java import Java
from stoker.engine.options import EngineOptions
from stoker.engine.server_config import (
    STARTED_MARK,
    ServerFiles,
    is_on_this_machine,
    spark_properties,
)
from stoker.engine.spark_masters import absence_of
from stoker.osproc.orphans import OWNER, SERVER, kill_marked, owner_mark
from stoker.osproc.process_tree import kill_tree

_START_POLL_SECONDS = 0.05
_STOP_SECONDS = 5.0
_COMPLAINT = "java.lang.OutOfMemoryError"
_SPARK_OUT_OF_MEMORY = 52
"""How Spark ends then, and nothing else does."""
_JAVA_OUT_OF_MEMORY = 3
"""How Java ends where it was told to (`-XX:+ExitOnOutOfMemoryError`)."""
_TAIL_BYTES = 64 * 1024
_UI_STARTED = re.compile(r"started service 'SparkUI' on port (\d+)")
_FOREIGN_SETTINGS = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


@dataclass(eq=False)
class Verdict:
    reason: str = ""
    """Why the server was killed by its own task executor; empty when it was not."""
    is_neighbours: bool = False
    """For what one task did, and the others at it did not."""


@dataclass(frozen=True, kw_only=True)
class SparkServer:
    pid: int
    """Of the JVM."""
    warden: WardenLink
    port: int
    token: str
    ui: str
    """Address of Spark's own web page, empty when that is off."""
    died: "asyncio.Task[str]"
    """Gives the reason in words once the process is gone."""
    verdict: Verdict

    def put_down(self, reason: str, *, is_neighbours: bool) -> None:
        """With all tasks at it, which hear the reason; nothing if it is gone already."""
        if self.died.done():
            # Its process id may be somebody else's by now.
            return
        if not self.verdict.reason:
            self.verdict.reason, self.verdict.is_neighbours = reason, is_neighbours
        kill_tree(self.pid)

    def url(self, session_id: str) -> str:
        # Only for this very name does PySpark send a token over a channel without TLS.
        return (
            f"sc://localhost:{self.port}/;user_id=stoker;session_id={session_id};token={self.token}"
        )


@asynccontextmanager
async def running_server(
    options: EngineOptions, java: Java, files: ServerFiles, token: str
) -> AsyncIterator[SparkServer]:
    """Starts a server and waits until it listens; raises StartupFailed with its last words.

    When it is gone, so is whatever its workers have started, and its directory.
    """
    for directory in ("local", "tmp", "derby", files.closed.name):
        (files.own / directory).mkdir(parents=True, exist_ok=True)
    try:
        async with _server_process(options, java, files, token) as server:
            yield server
    finally:
        await asyncio.to_thread(kill_marked, SERVER, files.mark)
        if files.life is not None:
            await asyncio.to_thread(shutil.rmtree, files.own, ignore_errors=True)


@asynccontextmanager
async def _server_process(
    options: EngineOptions, java: Java, files: ServerFiles, token: str
) -> AsyncIterator[SparkServer]:
    if (absent := await absence_of(options.master)) is not None:
        raise StartupFailed(absent)
    home = spark_home()
    files.write(
        spark_properties(
            options,
            files,
            os.cpu_count() or 1,
            java=java.version,
            first_jars=sorted((home / "jars").glob("spark-*.jar")),
        )
    )
    log_start = files.log.stat().st_size if files.log.exists() else 0
    environment = _environment(options, java, home) | {
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        OWNER: owner_mark(),
        SERVER: files.mark,
    }
    place = Place(
        directory=options.working_directory or files.work, log=files.log, closed=files.closed
    )
    failpoint("server.before-launch")
    process, warden = await start_guarded(_command(home, files), environment, place)
    failpoint("server.after-launch")
    verdict = Verdict()
    died = asyncio.create_task(
        _reason_of_death(process, files.log, log_start, verdict), name="spark-server"
    )
    try:
        pid = await warden.started(died)
        port = await _wait_until_listening(options, files.log, log_start, died)
        ui = _ui_in(_read_from(files.log, log_start), files.log)
        yield SparkServer(
            pid=pid, warden=warden, port=port, token=token, ui=ui, died=died, verdict=verdict
        )
    finally:
        await _stop(process)
        await died
        warden.close()


def _command(home: Path, files: ServerFiles) -> list[str]:
    return [
        str(home / "bin" / "spark-submit"),
        "--properties-file",
        str(files.properties),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    ]


def spark_home() -> Path:
    """PySpark's own directory, which is a whole Spark; found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise StartupFailed("pyspark is not installed; pip install 'pyspark[connect]'")
    return Path(spec.origin).parent


def _environment(options: EngineOptions, java: Java, home: Path) -> dict[str, str]:
    environment = {key: value for key, value in os.environ.items() if key not in _FOREIGN_SETTINGS}
    environment |= {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
    }
    if is_on_this_machine(options.master):
        # The web page listens here too; without it, on every interface.
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    return environment


async def _wait_until_listening(
    options: EngineOptions, log: Path, log_start: int, died: "asyncio.Task[str]"
) -> int:
    deadline = asyncio.get_running_loop().time() + options.start_timeout.total_seconds()
    while not died.done():
        if port := _port_in(_read_from(log, log_start)):
            return port
        if asyncio.get_running_loop().time() > deadline:
            raise StartupFailed(
                f"the Spark server did not answer within {options.start_timeout}; see {log}"
            )
        await asyncio.wait([died], timeout=_START_POLL_SECONDS)
    last_words = last_error_lines(_read_from(log, log_start))
    raise StartupFailed(f"the Spark server did not start: {died.result()}; {last_words}; see {log}")


def _port_in(text: str) -> int | None:
    _, mark, rest = text.partition(STARTED_MARK)
    address, newline, _ = rest.partition("\n")
    return int(address.strip().rpartition(":")[2]) if mark and newline else None


def _ui_in(text: str, log: Path) -> str:
    found = _UI_STARTED.search(text)
    if found is None:
        raise StartupFailed(
            "the Spark server serves no monitoring, without which nobody knows that cancelled"
            f" work has ended; {log} should say why"
        )
    return f"http://127.0.0.1:{found.group(1)}"


def _read_from(log: Path, start: int) -> str:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start, size - _TAIL_BYTES))
        return file.read().decode(errors="replace")


async def _reason_of_death(
    process: asyncio.subprocess.Process, log: Path, log_start: int, verdict: Verdict
) -> str:
    code = await process.wait()
    return verdict.reason or death_in_words(code, _read_from(log, log_start))


def death_in_words(code: int, log_tail: str) -> str:
    """How a process ended, and Java's lack of memory named as such.

    By the exit code, since Spark survives some lack of memory, of which its log tells as well.
    """
    ending = exit_in_words(code)
    if code not in (_SPARK_OUT_OF_MEMORY, _JAVA_OUT_OF_MEMORY):
        return ending
    complaints = [
        line[line.index(_COMPLAINT) :].strip()
        for line in log_tail.splitlines()
        if _COMPLAINT in line
    ]
    if not complaints and code != _SPARK_OUT_OF_MEMORY:
        return ending
    # Much may have been logged since.
    complaint = complaints[0] if complaints else _COMPLAINT
    return f"{complaint} ({ending}); raise taskmanager.memory.spark-heap"


def exit_in_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def exit_code_in(words: str) -> int | None:
    """What `exit_in_words` was told, as a shell shows it; None for other words."""
    code = words.removeprefix("exit code ")
    if code != words and code.isdecimal():
        return int(code)
    name = words.removeprefix("killed by ")
    return 128 + signal.Signals[name] if name in signal.Signals.__members__ else None


def last_error_lines(text: str, count: int = 3) -> str:
    """The lines of a log that most likely say why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "rror" in line]
    return " | ".join((telling or lines)[-count:]) or "it said nothing"


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    failpoint("server.before-stop")
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
