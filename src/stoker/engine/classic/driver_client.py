"""The task executor's side of one driver process with a JVM of its own."""

import asyncio
import shutil
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import Unavailable
from stoker.core.failpoints import failpoint
from stoker.engine.child_channel import ChildChannel, open_channel
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.classic.settings import LOGGERS, driver_properties
from stoker.engine.java import Java
from stoker.engine.options import EngineOptions
from stoker.engine.protocol import NotReady, Ready
from stoker.engine.server_config import NOWHERE, ServerFiles, spark_environment
from stoker.engine.spark_masters import find_absent_master
from stoker.engine.spark_page import new_page_key
from stoker.engine.worker_settings import worker_environment
from stoker.osproc.captured_output import LogPump
from stoker.osproc.exit import ProcessExit
from stoker.osproc.private_files import with_umask
from stoker.osproc.supervised import supervised_command

_KILL_SECONDS = 5.0
"""How long the supervisor may take to kill the driver before it is killed itself."""


@dataclass(frozen=True, kw_only=True)
class DriverSetup:
    """Options and directories that all drivers of an engine share."""

    options: EngineOptions
    classic: ClassicOptions
    java: Java
    work: Path
    logs: Path


class DriverProcess(ChildChannel):
    """A driver and the supervisor of its processes; messages go to the driver."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        directory: Path,
        channel: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        output: tuple[LogPump, LogPump],
    ) -> None:
        super().__init__(*channel, output)
        self._process = process
        self._directory = directory
        self.spark_version = ""
        self.exited: asyncio.Task[int] = asyncio.create_task(self._wait(), name="driver")
        """Done when no process of the driver is left. The exit code is negative for a signal."""

    @property
    def pid(self) -> int:
        """Process id of the supervisor, not of the driver."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return not self.exited.done()

    @property
    def last_words(self) -> str:
        return self._stderr.last_words

    @property
    def last_output(self) -> str:
        return self._stdout.last_words

    def ask_to_end(self) -> None:
        """Send SIGTERM to driver and JVM; the supervisor kills them after the grace period."""
        failpoint("driver.before-ending")
        with suppress(ProcessLookupError):
            self._process.terminate()

    async def kill(self) -> int:
        """Kill all processes of the driver; returns when none is left."""
        if self.exited.done():
            return self.exited.result()
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)
        await asyncio.wait([self.exited], timeout=_KILL_SECONDS)
        if not self.exited.done():
            # Driver and JVM die with the supervisor.
            with suppress(ProcessLookupError):
                self._process.kill()
        return await asyncio.shield(self.exited)

    async def _wait(self) -> int:
        code = await self._process.wait()
        await self.close_channel()
        shutil.rmtree(self._directory, ignore_errors=True)
        return code


async def start_driver(
    setup: DriverSetup,
    name: str,
    *,
    warm: bool,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> DriverProcess:
    """Start a driver that waits for its task; raises Unavailable with the reason."""
    master = (settings or {}).get("spark.master", setup.options.master)
    if (absent := await find_absent_master(master)) is not None:
        raise Unavailable(absent)
    directory = setup.work / "drivers" / name
    try:
        files = _prepare(setup, directory, settings or {})
        variables = _environment(setup, files) | dict(environment or {})
        variables |= worker_environment(master, variables.get("PYTHONPATH", ""))
        driver = await _launch(setup, directory, variables, warm=warm)
    except OSError as error:
        # The machine lacks processes, memory, open files or disk.
        shutil.rmtree(directory, ignore_errors=True)
        raise Unavailable(f"a Spark driver cannot be started: {error}") from error
    failpoint("driver.after-launch")
    try:
        await _wait_until_ready(driver, setup)
    except BaseException:
        await driver.kill()
        raise
    return driver


async def _launch(
    setup: DriverSetup, directory: Path, variables: Mapping[str, str], *, warm: bool
) -> DriverProcess:
    ours, theirs = socket.socketpair()
    failpoint("driver.before-launch")
    with theirs, ExitStack() as undo:
        reader, writer = await open_channel(ours)
        undo.callback(writer.close)
        process = await asyncio.create_subprocess_exec(
            *_command(setup, theirs.fileno(), warm=warm),
            cwd=NOWHERE,
            env=variables,
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        # Driver and JVM die with the supervisor.
        undo.callback(process.kill)
        assert process.stdout is not None
        assert process.stderr is not None
        log = setup.logs / "drivers.log"
        limit = int(setup.options.runner_log_size)
        pumps = (LogPump(process.stdout, log, limit), LogPump(process.stderr, log, limit))
        undo.pop_all()
    return DriverProcess(process, directory, (reader, writer), pumps)


async def _wait_until_ready(driver: DriverProcess, setup: DriverSetup) -> None:
    limit = setup.options.start_timeout
    try:
        async with asyncio.timeout(limit.total_seconds()):
            answer = await driver.receive()
    except TimeoutError:
        raise Unavailable(
            f"a Spark driver was not ready within {limit}{_last_lines(driver)}; the machine may "
            "be too busy: try again later, or raise taskmanager.spark.start-timeout"
        ) from None
    match answer:
        case Ready(spark_version=version):
            driver.spark_version = version
        case NotReady(reason=reason):
            raise Unavailable(f"a Spark driver did not start: {reason}{_last_lines(driver)}")
        case _:
            code = await driver.kill()
            raise Unavailable(
                "a Spark driver ended before it was ready: "
                f"{ProcessExit(code=code).describe()}{_last_lines(driver)}"
            )


def _last_lines(driver: DriverProcess) -> str:
    lines = [line for line in driver.last_words.splitlines() if line.strip()]
    return f"; its last output: {' | '.join(lines[-3:])}" if lines else ""


def _prepare(setup: DriverSetup, directory: Path, settings: Mapping[str, str]) -> ServerFiles:
    for name in ("local", "tmp", "derby"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    files = ServerFiles(work=directory, logs=setup.logs)
    properties = driver_properties(setup.options, setup.classic, files, settings, new_page_key())
    files.write(properties, loggers=LOGGERS)
    return files


def _command(setup: DriverSetup, descriptor: int, *, warm: bool) -> list[str]:
    grace = setup.options.cancellation_grace.total_seconds()
    driver = [
        sys.executable,
        "-m",
        "stoker.engine.classic.driver.main",
        str(descriptor),
        str(int(warm)),
    ]
    command = supervised_command(*driver, grace=grace)
    return with_umask(setup.options.runner_umask, *command)


def _environment(setup: DriverSetup, files: ServerFiles) -> dict[str, str]:
    return spark_environment(setup.options, setup.java) | {
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {files.properties} pyspark-shell",
        # Output of a program reaches the user line by line.
        "PYTHONUNBUFFERED": "1",
    }
