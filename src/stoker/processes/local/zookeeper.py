"""Real ZooKeeper servers on this machine, from the jars that PySpark ships.

For local clusters and for tests. All calls block. Start the servers from the main thread: they die
with the thread that started them.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from stoker.core.errors import StartupFailed
from stoker.engine.java import Java, bundled_java_home, find_java
from stoker.engine.server_config import spark_home
from stoker.osproc.atomic_file import write_atomically
from stoker.osproc.captured_output import last_error_lines
from stoker.osproc.parent_death import die_with_parent_command

HOST: Final = "127.0.0.1"
TICK_MILLISECONDS: Final = 500
READY_SECONDS: Final = 30.0
_ASK_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 5.0
_PASSWORD_BYTES: Final = 24

_JARS: Final = ("zookeeper-", "slf4j-api-", "log4j-", "netty-", "metrics-core-", "snappy-java-")
_JAVA_OPTIONS: Final = (
    "-Xms16m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.fastleader.maxNotificationInterval=1000",
)

_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex{1}
"""


def acl_for(credential: str) -> dict[str, str]:
    """Settings by which only processes with this credential can use the records."""
    prefix = "high-availability.zookeeper.client"
    return {f"{prefix}.acl": "creator", f"{prefix}.auth": f"digest:{credential}"}


@dataclass(frozen=True, kw_only=True)
class _ZooKeeperServer:
    number: int
    directory: Path
    client_port: int
    quorum_port: int
    election_port: int

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    @property
    def member(self) -> str:
        return f"server.{self.number}={HOST}:{self.quorum_port}:{self.election_port}"


class LocalZooKeeper:
    """One server or an ensemble; as a context manager it runs until the context ends.

    With `tied`, servers die with this process. Servers are counted from 0. `settings` are added to
    the configuration file of every server.
    """

    def __init__(
        self,
        directory: Path,
        *,
        servers: int = 1,
        java: Java | None = None,
        tied: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self._settings = dict(settings or {})
        self._java = java
        self._tied = tied
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        ports = iter(self._ports(3 * servers))
        self._servers = [
            _ZooKeeperServer(
                number=number,
                directory=self.directory / f"zookeeper-{number}",
                client_port=next(ports),
                quorum_port=next(ports),
                election_port=next(ports),
            )
            for number in range(1, servers + 1)
        ]

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def addresses(self) -> list[str]:
        return [f"{HOST}:{server.client_port}" for server in self._servers]

    def url(self, root: str = "stoker") -> str:
        return f"zookeeper://{','.join(self.addresses)}/{root}"

    @property
    def credential(self) -> str:
        """The user whose records no other user of the machine can touch, for `digest`.

        It stays the same as long as the data does, whose owner it is.
        """
        file = self.directory / "credential"
        if not file.exists():
            text = f"stoker:{secrets.token_urlsafe(_PASSWORD_BYTES)}"
            write_atomically(file, text.encode(), mode=0o600)
        return file.read_text()

    def pid(self, index: int) -> int:
        return self._processes[index].pid

    def start(self) -> None:
        """Start all servers that do not run; returns before they answer."""
        for index in range(len(self._servers)):
            if not self.is_running(index):
                self._spawn(index)

    def stop(self) -> None:
        """Stop all servers; only their files remain."""
        for index in range(len(self._servers)):
            self.kill(index)

    def purge(self) -> None:
        """Remove the data of stopped servers."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def is_running(self, index: int) -> bool:
        process = self._processes.get(index)
        return process is not None and process.poll() is None

    def kill(self, index: int) -> None:
        """Like `kill -9`; acknowledged writes are on the disk of the server."""
        process = self._processes.pop(index, None)
        if process is not None:
            process.kill()
            process.wait(_STOP_SECONDS)

    def freeze(self, index: int) -> None:
        self._processes[index].send_signal(signal.SIGSTOP)

    def thaw(self, index: int) -> None:
        self._processes[index].send_signal(signal.SIGCONT)

    def restart(self, index: int) -> None:
        """Kill the server if it runs, and start it again on its data; returns before it answers."""
        self.kill(index)
        self._spawn(index)

    def leader(self) -> int | None:
        """Index of the server that leads the ensemble, or of the only server."""
        for index in range(len(self._servers)):
            if self.mode(index) in ("leader", "standalone"):
                return index
        return None

    def mode(self, index: int) -> str | None:
        """The role that the server reports; None when it does not serve."""
        if not self.is_running(index):
            return None
        for line in _ask(self._servers[index].client_port).splitlines():
            name, _, mode = line.partition(": ")
            if name == "Mode":
                return mode
        return None

    def wait_until_ready(self, seconds: float = READY_SECONDS) -> None:
        """Return when every server that was started serves clients."""
        deadline = time.monotonic() + seconds
        for index in list(self._processes):
            while self.mode(index) is None:
                self._check_alive(index)
                if time.monotonic() > deadline:
                    raise StartupFailed(
                        f"ZooKeeper server {index} did not serve within {seconds:g} s; "
                        f"see {self._servers[index].log}"
                    )
                time.sleep(_POLL_SECONDS)

    def _check_alive(self, index: int) -> None:
        if self.is_running(index):
            return
        log = self._servers[index].log
        reason = last_error_lines(log.read_text(errors="replace"))
        raise StartupFailed(f"ZooKeeper server {index} did not start: {reason}; see {log}")

    def _spawn(self, index: int) -> None:
        server = self._servers[index]
        command = self.command(index)
        with server.log.open("ab") as output:
            self._processes[index] = subprocess.Popen(
                die_with_parent_command(*command) if self._tied else command,
                cwd=server.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C at the terminal goes to the command, which then stops the server.
                start_new_session=True,
            )

    def command(self, index: int) -> list[str]:
        """The command line that runs this server in the foreground; its files exist already."""
        if self._java is None:
            self._java = _find_java(self.directory / "java")
        server = self._servers[index]
        self._write_files(server)
        jars = spark_home() / "jars"
        classpath = [str(jar) for jar in sorted(jars.glob("*.jar")) if jar.name.startswith(_JARS)]
        return [
            str(self._java.home / "bin" / "java"),
            *_JAVA_OPTIONS,
            f"-Dlog4j2.configurationFile={(server.directory / 'log4j2.properties').as_uri()}",
            "-cp",
            os.pathsep.join(classpath),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(server.directory / "zoo.cfg"),
        ]

    def _ports(self, count: int) -> list[int]:
        """Reuse the ports of a previous start, because an ensemble is identified by them."""
        file = self.directory / "ports"
        if file.exists():
            ports = [int(text) for text in file.read_text().split()]
            if len(ports) == count:
                return ports
        ports = _free_ports(count)
        self.directory.mkdir(parents=True, exist_ok=True)
        file.write_text(" ".join(map(str, ports)) + "\n")
        return ports

    def _write_files(self, server: _ZooKeeperServer) -> None:
        data = server.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{server.number}\n")
        (server.directory / "log4j2.properties").write_text(_LOGGING)
        settings = {
            "tickTime": TICK_MILLISECONDS,
            "initLimit": 10,
            "syncLimit": 4,
            "minSessionTimeout": 2 * TICK_MILLISECONDS,
            "maxSessionTimeout": 120 * TICK_MILLISECONDS,
            "dataDir": data,
            "clientPortAddress": HOST,
            "clientPort": server.client_port,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
            "autopurge.snapRetainCount": 3,
            "autopurge.purgeInterval": 1,
            **self._settings,
        }
        lines = [f"{key}={_escaped(str(value))}" for key, value in settings.items()]
        if len(self._servers) > 1:
            lines += [member.member for member in self._servers]
        (server.directory / "zoo.cfg").write_text("\n".join(lines) + "\n")


def _escaped(value: str) -> str:
    """Java reads properties as Latin-1, with escapes for everything else."""
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)


def _find_java(shim_directory: Path) -> Java:
    """Runs in a thread, because the thread of the caller may run an event loop."""
    looking = find_java(os.environ, shim_directory, bundled_home=bundled_java_home())
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, looking).result()


def _ask(port: int) -> str:
    """The answer of the server to `srvr`, or an empty text."""
    answer = b""
    with (
        contextlib.suppress(OSError),
        socket.create_connection((HOST, port), timeout=_ASK_SECONDS) as connection,
    ):
        connection.sendall(b"srvr")
        while part := connection.recv(4096):
            answer += part
    return answer.decode(errors="replace")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            listener = held.enter_context(socket.socket())
            listener.bind((HOST, 0))
            ports.append(listener.getsockname()[1])
        return ports
