"""Flink's own command line, and a real Flink JobManager for the jobs that it submits.

Both run from the jars of a Flink distribution (`lib/`, with `bin/` beside it). The JobManager has
no task managers: only the time until a job is accepted is compared, and neither side runs its jobs.
"""

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.osproc.parent_death import die_with_parent_command

COMMAND_LINE = "org.apache.flink.client.cli.CliFrontend"
CONFIGURATION_READER = "org.apache.flink.runtime.util.bash.BashJavaUtils"
JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
OPENED_PACKAGES = (
    *("java.lang", "java.lang.reflect", "java.net", "java.io", "java.nio", "sun.nio.ch"),
    *("java.text", "java.time", "java.util", "java.util.concurrent"),
    *("java.util.concurrent.atomic", "java.util.concurrent.locks"),
)
"""Java packages that Flink accesses by reflection; its default configuration opens them too."""
PROGRAM = """
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

public class Copy {
    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.fromSequence(1, 10).sinkTo(new DiscardingSink<>());
        env.execute("copy");
    }
}
"""
_START_SECONDS = 120.0


@dataclass(frozen=True)
class Flink:
    """Flink's jars, and a folder for its configuration and for the compiled job."""

    lib: Path
    folder: Path

    def script(self, *arguments: str) -> list[list[str]]:
        """The commands that `bin/flink` runs, in order; the first only reads the configuration."""
        return [*self._configuration_commands(), [*self._java(), COMMAND_LINE, *arguments]]

    def _java(self) -> list[str]:
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
        return ["java", *opened, "-cp", f"{self.lib}/*"]

    def _configuration_commands(self) -> list[list[str]]:
        utilities = self.lib.parent / "bin" / "bash-java-utils.jar"
        if not utilities.exists():
            return []
        read = ["UPDATE_AND_GET_FLINK_CONFIGURATION", "--configDir", str(self.folder), "-flatten"]
        return [["java", "-cp", f"{self._distribution()}:{utilities}", CONFIGURATION_READER, *read]]

    def _distribution(self) -> Path:
        (found,) = self.lib.glob("flink-dist*.jar")
        return found

    def program(self) -> Path | None:
        """The jar of a small job; None if there is no Java compiler."""
        if shutil.which("javac") is None or shutil.which("jar") is None:
            return None
        source, classes = self.folder / "Copy.java", self.folder / "classes"
        source.write_text(PROGRAM)
        compilation = ["javac", "-cp", str(self._distribution()), "-d", str(classes), str(source)]
        subprocess.run(compilation, check=True)
        jar = self.folder / "copy.jar"
        subprocess.run(["jar", "cfe", str(jar), "Copy", "-C", str(classes), "."], check=True)
        return jar

    @contextmanager
    def job_manager(self) -> Iterator[str]:
        """A session cluster without task managers, on loopback; yields its host and port."""
        rpc, rest = _free_ports(2)
        settings = {
            "jobmanager.rpc.address": "127.0.0.1",
            "jobmanager.bind-host": "127.0.0.1",
            "jobmanager.rpc.port": rpc,
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.port": rest,
            "jobmanager.memory.process.size": "1g",
        }
        lines = [f"{key}: {value}\n" for key, value in settings.items()]
        (self.folder / "config.yaml").write_text("".join(lines))
        command = [*self._java(), "-Xmx512m", JOB_MANAGER, "--configDir", str(self.folder)]
        with (self.folder / "job-manager.log").open("wb") as log:
            process = subprocess.Popen(die_with_parent_command(*command), stdout=log, stderr=log)
        try:
            _wait_until_ready(process, f"http://127.0.0.1:{rest}/overview")
            yield f"127.0.0.1:{rest}"
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        assert process.poll() is None, "Flink's JobManager has exited; see job-manager.log"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                answer.read()
                return
        except (urllib.error.URLError, TimeoutError):
            assert time.monotonic() < deadline, "Flink's JobManager does not answer"
            time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
