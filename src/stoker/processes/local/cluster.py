"""A cluster on this machine: masters and task executors as processes, their files in one place.

Used for a cluster that stays (`stoker cluster up`) and for one that lives as long as a command.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Self

from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import Conflict, StartupFailed, StokerError
from stoker.core.extras import check_cluster_extra
from stoker.osproc.parent_death import die_with_parent_command
from stoker.processes.local.cluster_state import (
    MARK,
    ClusterState,
    ProcessRecord,
    former_port_of,
    processes_of,
    read_state,
    reason_in,
    remove_state,
    send,
    start_time_of,
    urls_of,
    wait_until_gone,
    write_state,
)
from stoker.processes.local.zookeeper import LocalZooKeeper

Tell = Callable[[str], None]

CONFIGURATION_FILE = "stoker.yml"
READY_SECONDS = 150.0
GRACE_SECONDS = 15.0
_REMNANTS_SECONDS = 5.0
_POLL_SECONDS = 0.1


def quick(options: ClientOptions) -> ClientOptions:
    """For a look whether somebody answers yet."""
    return replace(
        options, retries=0, timeout=timedelta(seconds=5), connect_timeout=timedelta(seconds=2)
    )


def tell_nobody(_text: str) -> None:
    """For those who only want it to be ready."""


class LocalCluster:
    """The processes whose files are in `directory`.

    `tied` ones end with this process, however it ends; others stay until they are stopped.
    As a context manager it is stopped at the end.
    """

    def __init__(
        self, directory: Path, *, tied: bool = False, client: ClientOptions | None = None
    ) -> None:
        self.directory = directory.absolute()
        self._look = quick(client or ClientOptions())
        self._tied = tied
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def state(self) -> ClusterState | None:
        return read_state(self.directory)

    @property
    def masters(self) -> str:
        """The URLs of those that answer, in the form that a client takes."""
        return ",".join(urls_of(self.directory, self.state or ClusterState()))

    def start(
        self,
        *,
        masters: int = 1,
        task_executors: int = 1,
        zookeeper: int = 0,
        high_availability: str | None = None,
        configuration: str = "{}",
    ) -> ClusterState:
        """Start the processes and return at once; Conflict when some run already.

        With `zookeeper` servers of its own the cluster coordinates over them.
        """
        check_cluster_extra("a cluster on this machine")
        with self._locked():
            state = self.state
            if state is not None and state.alive:
                raise Conflict(f"a local cluster runs already in {self.directory}")
            self._write_configuration(configuration)
            if zookeeper:
                high_availability = self._zookeeper(zookeeper).url()
            plan = ClusterState(high_availability=high_availability)
            state = ClusterState(
                zookeeper=self._spawn_all("zookeeper", zookeeper, plan),
                masters=self._spawn_all("master", masters, plan),
                task_executors=self._spawn_all("task-executor", task_executors, plan),
                high_availability=high_availability,
            )
            write_state(self.directory, state)
            return state

    def _zookeeper(self, servers: int) -> LocalZooKeeper:
        return LocalZooKeeper(self.directory / "zookeeper", servers=servers)

    def start_missing(self) -> list[ProcessRecord]:
        """Start those again that died, with the same configuration and, for masters, port."""
        with self._locked():
            state = self.state or ClusterState()
            again = {record.name: self._restart(record, state) for record in state.dead}

            def living(records: tuple[ProcessRecord, ...]) -> tuple[ProcessRecord, ...]:
                return tuple(again.get(record.name, record) for record in records)

            write_state(
                self.directory,
                ClusterState(
                    zookeeper=living(state.zookeeper),
                    masters=living(state.masters),
                    task_executors=living(state.task_executors),
                    high_availability=state.high_availability,
                ),
            )
            return list(again.values())

    def kill(self, record: ProcessRecord) -> None:
        """As `kill -9`; returns when the process is gone: the kernel may take its time."""
        send(record, signal.SIGKILL)
        wait_until_gone([record], _REMNANTS_SECONDS)

    def wait_until_ready(self, tell: Tell = tell_nobody, seconds: float = READY_SECONDS) -> None:
        """Return when a leader answers and every task executor is registered."""
        deadline = time.monotonic() + seconds
        told = ""
        while True:
            stage = self._stage()
            if stage is None:
                return
            if stage != told:
                tell(stage)
                told = stage
            if time.monotonic() > deadline:
                raise StartupFailed(
                    f"the local cluster was not ready within {seconds:g} s ({stage}); "
                    f"its logs are in {self.directory / 'log'}"
                )
            time.sleep(_POLL_SECONDS)

    def stop(self, tell: Tell = tell_nobody) -> None:
        """Masters first, so that jobs are left as they are; nothing is left when this returns."""
        with self._locked():
            state = self.state or ClusterState()
            for records in (state.masters, state.task_executors, state.zookeeper):
                self._end(records, tell)
            remnants = wait_until_gone(processes_of(self.directory), _REMNANTS_SECONDS)
            for record in remnants:
                tell(f"killing what was left: {record.name} (pid {record.pid})")
                send(record, signal.SIGKILL)
            left = wait_until_gone(remnants, _REMNANTS_SECONDS)
            self._reap()
            if left:
                pids = ", ".join(str(record.pid) for record in left)
                raise StokerError(f"these processes could not be stopped: {pids}; look at them")
            remove_state(self.directory)

    def purge(self) -> None:
        """Remove all files of a stopped cluster, jobs and results among them."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _stage(self) -> str | None:
        """What is still awaited, in words; None when nothing is."""
        self._reap()
        state = self.state or ClusterState()
        for record in state.dead:
            raise StartupFailed(f"{record.name} ended during its start: {reason_in(record)}")
        urls = urls_of(self.directory, state)
        if len(urls) < len(state.masters):
            return f"{len(state.masters) - len(urls)} of {len(state.masters)} masters start"
        try:
            overview = BlockingClient(",".join(urls), self._look).overview()
        except StokerError as error:
            return f"masters answer at {', '.join(urls)}, none leads yet ({error.message})"
        if overview.taskmanagers < len(state.task_executors):
            count = f"{overview.taskmanagers} of {len(state.task_executors)}"
            return f"master answers at {', '.join(urls)}; {count} task executors are registered"
        return None

    def _spawn_all(self, kind: str, count: int, plan: ClusterState) -> tuple[ProcessRecord, ...]:
        return tuple(
            self._spawn(f"{kind}-{number}", self._command(f"{kind}-{number}", count, plan))
            for number in range(1, count + 1)
        )

    def _restart(self, record: ProcessRecord, state: ClusterState) -> ProcessRecord:
        port = former_port_of(self.directory, record.name)
        more = {"rest.bind-port": port} if port else {}
        command = self._command(record.name, len(state.zookeeper), state, more)
        return self._spawn(record.name, command)

    def _spawn(self, name: str, command: list[str]) -> ProcessRecord:
        log = self.directory / "log" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            start = output.tell()
            child = subprocess.Popen(
                die_with_parent_command(*command) if self._tied else command,
                cwd=self.directory,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C at the terminal is for the command, which then ends this in order.
                start_new_session=True,
            )
        self._children[child.pid] = child
        return ProcessRecord(
            name=name,
            pid=child.pid,
            started=start_time_of(child.pid) or 0,
            log=str(log),
            log_start=start,
        )

    def _command(
        self, name: str, count: int, plan: ClusterState, more: Mapping[str, str] | None = None
    ) -> list[str]:
        kind, _, number = name.rpartition("-")
        if kind == "zookeeper":
            return self._zookeeper(count).command(int(number) - 1)
        owner = "jobmanager" if kind == "master" else "taskmanager"
        settings = {
            "high-availability": plan.high_availability or "none",
            "high-availability.storageDir": str(self.directory / "storage"),
            "process.working-dir": str(self.directory / "work"),
            "process.log-dir": str(self.directory / "log" / name),
            f"{owner}.resource-id": name,
            **(more or {}),
        }
        definitions = [f"-D{key}={value}" for key, value in settings.items()]
        configuration = str(self.directory / CONFIGURATION_FILE)
        command = [sys.executable, "-m", "stoker.cli.main", kind, "--config", configuration]
        return [*command, *definitions]

    def _environment(self) -> dict[str, str]:
        # The configuration file has all that was set; a later restart must find the same.
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("STOKER_") or key in ("STOKER_DEBUG", "STOKER_FAILPOINT")
        }
        return inherited | {MARK: str(self.directory)}

    def _write_configuration(self, text: str) -> None:
        path = self.directory / CONFIGURATION_FILE
        path.unlink(missing_ok=True)
        # It may hold secrets.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(text)

    def _end(self, records: tuple[ProcessRecord, ...], tell: Tell) -> None:
        for record in records:
            send(record, signal.SIGTERM)
        for record in wait_until_gone(records, GRACE_SECONDS):
            tell(f"{record.name} did not end within {GRACE_SECONDS:g} s and is killed")
            send(record, signal.SIGKILL)
        wait_until_gone(records, _REMNANTS_SECONDS)
        self._reap()

    def _reap(self) -> None:
        self._children = {
            pid: child for pid, child in self._children.items() if child.poll() is None
        }

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time starts or stops processes here, across all commands."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = (self.directory / "cluster.lock").open("a")
        except OSError as error:
            raise StartupFailed(
                f"the directory {self.directory} cannot be used: {error.strerror or error}; "
                "make it writable or name another one with --dir"
            ) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
