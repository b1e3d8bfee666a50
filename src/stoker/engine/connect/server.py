"""One Spark Connect server: a JVM below its watchdog, which dies with this process.

All tasks of the connect engine share a server, so its death ends all of them. Whoever kills it has
to say why, and each task reports that reason. If one task caused the kill, the others start again
without using up their restart strategies.
"""

import asyncio
import logging
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from stoker.core.errors import StartupFailed
from stoker.core.failpoints import failpoint
from stoker.engine.connect.loopback_guard import guarded_port
from stoker.engine.connect.watchdog_client import WatchdogClient, start_watched
from stoker.engine.java import Java
from stoker.engine.options import EngineOptions
from stoker.engine.server_config import (
    NOWHERE,
    STARTED_MARK,
    ServerFiles,
    spark_environment,
    spark_home,
    spark_properties,
)
from stoker.engine.spark_masters import find_absent_master
from stoker.engine.spark_page import new_page_key, page_key_in, with_token
from stoker.engine.worker_settings import worker_environment, worker_properties
from stoker.osproc.captured_output import last_error_lines
from stoker.osproc.exit import ProcessExit
from stoker.osproc.orphans import SERVER, kill_marked
from stoker.osproc.process_tree import kill_tree

logger = logging.getLogger(__name__)

_START_POLL_SECONDS = 0.05
_STOP_SECONDS = 5.0
_NOTICE_SECONDS = 2.0
"""A runner may notice the loss of the server before the kernel has told this process of it."""
_SHUTDOWN_SECONDS = 15.0
"""How long a stopped Spark may take to remove its files and end its process."""
_ANSWER_SECONDS = 5.0
_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
_SPARK_OUT_OF_MEMORY = 52
"""Spark's exit code for lack of memory, used for nothing else."""
_JAVA_OUT_OF_MEMORY = 3
"""Java's exit code with `-XX:+ExitOnOutOfMemoryError`."""
_TAIL_BYTES = 64 * 1024
_UI_STARTED = re.compile(r"started service 'SparkUI' on port (\d+)")


@dataclass(eq=False)
class KillReason:
    text: str = ""
    """Why the task executor killed the server; empty when it did not."""
    is_collateral: bool = False
    """The kill was due to one task: all others at the server are not to blame."""


@dataclass(frozen=True, kw_only=True)
class SparkServer:
    pid: int
    """Process id of the JVM, not of the watchdog."""
    watchdog: WatchdogClient
    port: int
    token: str
    ui: str
    """URL of Spark's web page, with a token for it; empty when the page is off."""
    died: "asyncio.Task[ProcessExit]"
    kill_reason: KillReason

    def kill(self, reason: str, *, is_collateral: bool) -> None:
        """Kill the server and with it all its tasks, which report the reason.

        Does nothing when the server is dead already.
        """
        if self.died.done():
            # The kernel may have given its process id to another process.
            return
        if not self.kill_reason.text:
            self.kill_reason.text, self.kill_reason.is_collateral = reason, is_collateral
        kill_tree(self.pid)

    def url(self, session_id: str) -> str:
        # PySpark sends a token over a channel without TLS to this host name only.
        return (
            f"sc://localhost:{self.port}/;user_id=stoker;session_id={session_id};token={self.token}"
        )


@asynccontextmanager
async def running_server(
    options: EngineOptions, java: Java, files: ServerFiles, token: str
) -> AsyncIterator[SparkServer]:
    """Start a server and wait until it listens; raise StartupFailed with the end of its log.

    At the end the server, all processes that its workers have started and its directory are gone.
    """
    for directory in ("local", "tmp", "derby", files.closed_sessions.name):
        (files.own / directory).mkdir(parents=True, exist_ok=True)
    try:
        async with _server_process(options, java, files, token) as server:
            yield server
    finally:
        await asyncio.to_thread(kill_marked, SERVER, files.mark)
        if files.generation is not None:
            await asyncio.to_thread(shutil.rmtree, files.own, ignore_errors=True)


async def end_if_spark_stopped(server: SparkServer) -> bool:
    """Return whether a server that a task reports as lost is dead.

    Kills a process in which Spark has stopped: it runs no job any more, but would hold its memory.
    """
    await asyncio.wait([server.died], timeout=_NOTICE_SECONDS)
    if server.died.done() or await _is_page_up(server.ui):
        return server.died.done()
    await asyncio.wait([server.died], timeout=_SHUTDOWN_SECONDS)
    if not server.died.done():
        logger.warning("kill process %s: Spark has stopped in it, but it does not end", server.pid)
        server.kill("Spark had stopped in it, and it did not end", is_collateral=False)
        await asyncio.wait([server.died])
    return True


async def _is_page_up(ui: str) -> bool:
    """Whether Spark's web page answers: the page is the first part of Spark to stop."""
    address = urlsplit(ui)
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_ANSWER_SECONDS):
            _, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.close()
        return True
    return False


@asynccontextmanager
async def _server_process(
    options: EngineOptions, java: Java, files: ServerFiles, token: str
) -> AsyncIterator[SparkServer]:
    if (absent := await find_absent_master(options.master)) is not None:
        raise StartupFailed(absent)
    home = spark_home()
    properties = worker_properties(options.master) | spark_properties(
        options,
        files,
        os.cpu_count() or 1,
        java=java.version,
        first_jars=sorted((home / "jars").glob("spark-*.jar")),
        page_key=new_page_key(),
    )
    files.write(properties)
    log_start = files.log.stat().st_size if files.log.exists() else 0
    environment = spark_environment(options, java) | {
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        SERVER: files.mark,
    }
    environment |= worker_environment(options.master, environment.get("PYTHONPATH", ""))
    failpoint("server.before-launch")
    process, watchdog = await start_watched(
        _command(home, files),
        environment,
        directory=NOWHERE,
        log=files.log,
        closed_sessions=files.closed_sessions,
        umask=options.runner_umask,
    )
    failpoint("server.after-launch")
    kill_reason = KillReason()
    died = asyncio.create_task(
        _wait_for_exit(process, files.log, log_start, kill_reason), name="spark-server"
    )
    with ExitStack() as held:
        try:
            pid = await watchdog.wait_until_started(died)
            port = await _wait_until_listening(options, files.log, log_start, died)
            # Before anybody is told the token, and until Spark listens no more.
            held.enter_context(guarded_port(port))
            page = _ui_in(_read_from(files.log, log_start), files.log)
            yield SparkServer(
                pid=pid,
                watchdog=watchdog,
                port=port,
                token=token,
                ui=with_token(page, page_key_in(properties)),
                died=died,
                kill_reason=kill_reason,
            )
        finally:
            await _stop(process)
            await died
            watchdog.close()


def _command(home: Path, files: ServerFiles) -> list[str]:
    return [
        str(home / "bin" / "spark-submit"),
        "--properties-file",
        str(files.properties),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    ]


async def _wait_until_listening(
    options: EngineOptions, log: Path, log_start: int, died: "asyncio.Task[ProcessExit]"
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
    errors = last_error_lines(_read_from(log, log_start))
    raise StartupFailed(
        f"the Spark server did not start: {died.result().describe()}; {errors}; see {log}"
    )


def _port_in(text: str) -> int | None:
    _, mark, rest = text.partition(STARTED_MARK)
    address, newline, _ = rest.partition("\n")
    return int(address.strip().rpartition(":")[2]) if mark and newline else None


def _ui_in(text: str, log: Path) -> str:
    found = _UI_STARTED.search(text)
    if found is None:
        raise StartupFailed(
            "the Spark server serves no monitoring page, and without it nobody can tell whether"
            f" cancelled work has ended; {log} should say why"
        )
    return f"http://127.0.0.1:{found.group(1)}"


def _read_from(log: Path, start: int) -> str:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start, size - _TAIL_BYTES))
        return file.read().decode(errors="replace")


async def _wait_for_exit(
    process: asyncio.subprocess.Process, log: Path, log_start: int, kill: KillReason
) -> ProcessExit:
    code = await process.wait()
    if kill.text:
        return ProcessExit(code=code, explanation=kill.text)
    return explain_exit(code, _read_from(log, log_start))


def explain_exit(code: int, log_tail: str) -> ProcessExit:
    """The exit of a Spark server; says so if Java had run out of memory.

    The exit code decides: Spark survives some lack of memory, and its log mentions that too.
    """
    ended = ProcessExit(code=code)
    if code not in (_SPARK_OUT_OF_MEMORY, _JAVA_OUT_OF_MEMORY):
        return ended
    complaints = [
        line[line.index(_OUT_OF_MEMORY) :].strip()
        for line in log_tail.splitlines()
        if _OUT_OF_MEMORY in line
    ]
    if not complaints and code != _SPARK_OUT_OF_MEMORY:
        return ended
    # Later lines may have pushed the complaint out of the tail.
    complaint = complaints[0] if complaints else _OUT_OF_MEMORY
    explanation = f"{complaint} ({ended.describe()}); raise taskmanager.memory.spark-heap"
    return ProcessExit(code=code, explanation=explanation)


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
