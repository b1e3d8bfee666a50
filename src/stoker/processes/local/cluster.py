"""A local cluster: masters and task executors as processes on this machine, with one directory.

Used for a cluster that stays (`stoker cluster up`) and for one that lives as long as a command.

The record of the processes in the directory (`cluster_state.py`) is written after they were
started, and commands can be killed at any moment. So a process is never identified by its pid
alone, and the end of a cluster is proven by the environment: a process that carries the mark of the
directory belongs to the cluster, whether or not it is on record. A lock lets only one command at a
time start or stop processes.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Self

import msgspec

from stoker.api.cluster import ClusterOverviewAnswer
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import Conflict, InvalidInput, StartupFailed, StokerError, Unavailable
from stoker.core.extras import check_cluster_extra
from stoker.core.values import decode_json
from stoker.osproc.parent_death import die_with_parent_command
from stoker.osproc.private_files import Exposure, claim_directory, private_opener
from stoker.osproc.process_tree import start_time
from stoker.processes.local.cluster_state import (
    MARK,
    ClusterState,
    LastStart,
    ProcessRecord,
    client_urls_of,
    previous_port_of,
    processes_of,
    read_last_start,
    read_state,
    reason_in,
    remove_state,
    send,
    socket_of,
    urls_of,
    wait_until_gone,
    write_last_start,
    write_state,
)
from stoker.processes.local.token import hashes_of, make_token, remove_token, token_of
from stoker.processes.local.zookeeper import LocalZooKeeper, acl_for

Tell = Callable[[str], None]

CONFIGURATION_FILE = "stoker.yml"
SAVEPOINTS = "savepoints"
"""Folder of the savepoints that users take; it outlives the other files of the cluster."""
_LOCK_FILE = "cluster.lock"
NO_PORTS: Mapping[str, str] = {}
READY_SECONDS = 150.0
GRACE_SECONDS = 15.0
_REMNANTS_SECONDS = 5.0
_POLL_SECONDS = 0.1


def probe_options(options: ClientOptions) -> ClientOptions:
    """The same options without patience, to find out whether a master answers."""
    return replace(
        options, retries=0, timeout=timedelta(seconds=5), connect_timeout=timedelta(seconds=2)
    )


def stage_text(
    state: ClusterState,
    urls: Sequence[str],
    answer: ClusterOverviewAnswer | StokerError | None,
) -> str | None:
    """What a start still waits for; None when the cluster is ready.

    `urls` are those of the masters that answer; `answer` is what they said, if all of them do.
    """
    masters, executors = len(state.masters), len(state.task_executors)
    match answer:
        case None:
            answering = f": {len(urls)} of {masters} answer" if masters > 1 else ""
            return f"starting the {'masters' if masters > 1 else 'master'}{answering}"
        case Unavailable():
            # A part of every start, and no fault: a new leader first reads the records.
            return f"the leading master at {', '.join(urls)} is getting ready"
        case StokerError():
            return f"waiting for a leading master: {answer.message}"
    if answer.taskmanagers < executors:
        count = f": {answer.taskmanagers} of {executors} are ready" if executors > 1 else ""
        noun = "task executors and their Sparks" if executors > 1 else "task executor and its Spark"
        return f"starting the {noun}{count}"
    return None


def ignore_text(_text: str) -> None:
    """For callers that show no progress."""


class LocalCluster:
    """The processes whose files are in `directory`.

    With `tied`, they die with this process; otherwise they run until they are stopped. As a context
    manager, it stops the cluster at the end.
    """

    def __init__(
        self, directory: Path, *, tied: bool = False, client: ClientOptions | None = None
    ) -> None:
        self.directory = directory.absolute()
        self._client_options = probe_options(client or ClientOptions())
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
        """The masters that answer, in the form that a client expects: by their sockets."""
        return ",".join(client_urls_of(self.directory, self.state or ClusterState()))

    @property
    def urls(self) -> str:
        """URLs of the masters that answer, for browsers and other tools."""
        return ",".join(urls_of(self.directory, self.state or ClusterState()))

    @property
    def settings(self) -> dict[str, str]:
        """The options with which the processes were started last, as text by key."""
        try:
            return decode_json((self.directory / CONFIGURATION_FILE).read_bytes(), dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise StartupFailed(
                f"the options of the local cluster cannot be read: {error}; remove "
                f"{self.directory / CONFIGURATION_FILE}, and give them again"
            ) from error

    @property
    def last_start(self) -> LastStart | None:
        """How the cluster runs, or ran when it was stopped; None if it was never ready."""
        state = self.state
        if state is None:
            return read_last_start(self.directory)
        return LastStart(
            masters=len(state.masters),
            task_executors=len(state.task_executors),
            zookeeper=len(state.zookeeper),
            # Either file: a cluster whose token was deleted must not be open after a restart.
            has_token=self.token is not None or hashes_of(self.directory) is not None,
            settings=self.settings,
        )

    def remember_start(self, defaults: Mapping[str, str]) -> None:
        """Record how the cluster runs, for a start after it was stopped.

        Only for a cluster that is ready: options with which it cannot start must not come back.
        Settings that are among `defaults` follow from the directory, which may be moved.
        """
        start = self.last_start
        if start is not None:
            settings = {k: text for k, text in start.settings.items() if defaults.get(k) != text}
            write_last_start(self.directory, msgspec.structs.replace(start, settings=settings))

    @property
    def ports(self) -> dict[str, str]:
        """REST ports by the names of the masters that run or were killed."""
        names = [record.name for record in (self.state or ClusterState()).masters]
        ports = {name: previous_port_of(self.directory, name) for name in names}
        return {name: port for name, port in ports.items() if port}

    def start(
        self,
        *,
        masters: int = 1,
        task_executors: int = 1,
        zookeeper: int = 0,
        high_availability: str | None = None,
        configuration: str = "{}",
        ports: Mapping[str, str] | None = None,
        with_token: bool = False,
        with_acl: bool = False,
    ) -> ClusterState:
        """Start the processes and return at once; Conflict when some of them already run.

        With `zookeeper` set, the cluster starts that many servers and coordinates over them.
        `ports` names the REST ports of a master, in place of the configured ones.

        With `with_token`, REST is for this user alone: the cluster gets a token of its own. With
        `with_acl`, so are the records in these ZooKeeper servers.
        """
        check_cluster_extra("a cluster on this machine")
        with self._locked():
            state = self.state
            if state is not None and state.alive:
                raise Conflict(
                    f"a local cluster is already running in {self.directory}; stop it with stoker "
                    "cluster down, or name another directory with --dir"
                )
            own = ("log", "sockets", "storage", "work")
            self._make_private_directories(*own, *(("zookeeper",) if zookeeper else ()))
            (make_token if with_token else remove_token)(self.directory)
            if zookeeper:
                ensemble = self._zookeeper(zookeeper)
                high_availability = ensemble.url()
                if with_acl:
                    configuration = _with_settings(configuration, acl_for(ensemble.credential))
            self._write_configuration(configuration)
            plan = ClusterState(high_availability=high_availability)
            state = ClusterState(
                zookeeper=self._spawn_all("zookeeper", zookeeper, plan),
                masters=self._spawn_all("master", masters, plan, ports or {}),
                task_executors=self._spawn_all("task-executor", task_executors, plan),
                high_availability=high_availability,
            )
            write_state(self.directory, state)
            return state

    @property
    def token(self) -> str | None:
        """The token of this cluster; None if it has none of its own."""
        return token_of(self.directory)

    @property
    def client_options(self) -> ClientOptions:
        """Options of a client of this cluster, with its token."""
        options = self._client_options
        return replace(options, token=options.token or self.token)

    def _make_private_directories(self, *names: str) -> None:
        """No other user may look into them, even if the directory above is open to all."""
        for name in names:
            claim_directory(self.directory / name, is_ours=True)

    def _zookeeper(self, servers: int) -> LocalZooKeeper:
        return LocalZooKeeper(self.directory / "zookeeper", servers=servers)

    def start_missing(self) -> list[ProcessRecord]:
        """Restart dead processes with the same configuration and, for masters, the same port."""
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
        """Kill the process as `kill -9` does; returns when it is gone, which may take a moment."""
        send(record, signal.SIGKILL)
        wait_until_gone([record], _REMNANTS_SECONDS)

    def wait_until_ready(self, tell: Tell = ignore_text, seconds: float = READY_SECONDS) -> None:
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

    def stop(self, tell: Tell = ignore_text) -> None:
        """Stop all processes; masters first, so that jobs stay as they are."""
        with self._locked():
            state = self.state or ClusterState()
            for records in (state.masters, state.task_executors, state.zookeeper):
                self._end(records, tell)
            remnants = wait_until_gone(processes_of(self.directory), _REMNANTS_SECONDS)
            for record in remnants:
                tell(f"killing a leftover process: {record.name} (pid {record.pid})")
                send(record, signal.SIGKILL)
            left = wait_until_gone(remnants, _REMNANTS_SECONDS)
            self._reap()
            if left:
                pids = ", ".join(str(record.pid) for record in left)
                raise StokerError(
                    f"these processes could not be stopped: {pids}; stop them by hand"
                )
            remove_state(self.directory)

    def purge(self, *, savepoints: bool = False) -> Path | None:
        """Remove all files of a stopped cluster, including jobs and results.

        Savepoints are kept unless `savepoints` is set: a user took each of them on purpose, and it
        may be all that is left of a job. Returns their folder if any are kept.

        Raises InvalidInput for a directory in which no local cluster was ever started: it may be
        any directory of the user, and all of its files would be removed.
        """
        if self.directory.exists() and not (self.directory / _LOCK_FILE).exists():
            raise InvalidInput(
                f"{self.directory} is not the directory of a local cluster, so nothing in it was "
                "removed; correct --dir"
            )
        kept = self.directory / SAVEPOINTS
        if savepoints or not kept.is_dir() or not any(kept.iterdir()):
            shutil.rmtree(self.directory, ignore_errors=True)
            return None
        for path in self.directory.iterdir():
            # Without the lock file this would no longer count as the directory of a cluster.
            if path.name in (SAVEPOINTS, _LOCK_FILE):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        return kept

    def _stage(self) -> str | None:
        """What the start still waits for, as text; None when the cluster is ready."""
        self._reap()
        state = self.state or ClusterState()
        for record in state.dead:
            raise StartupFailed(f"{record.name} ended during its start: {reason_in(record)}")
        urls = urls_of(self.directory, state)
        answer = self._ask_overview() if len(urls) == len(state.masters) else None
        return stage_text(state, urls, answer)

    def _ask_overview(self) -> ClusterOverviewAnswer | StokerError:
        try:
            with BlockingClient(self.masters, self.client_options) as client:
                return client.overview()
        except StokerError as error:
            return error

    def _spawn_all(
        self, kind: str, count: int, plan: ClusterState, ports: Mapping[str, str] = NO_PORTS
    ) -> tuple[ProcessRecord, ...]:
        names = [f"{kind}-{number}" for number in range(1, count + 1)]
        return tuple(
            self._spawn(name, self._command(name, count, plan, ports.get(name))) for name in names
        )

    def _restart(self, record: ProcessRecord, state: ClusterState) -> ProcessRecord:
        port = previous_port_of(self.directory, record.name)
        command = self._command(record.name, len(state.zookeeper), state, port)
        return self._spawn(record.name, command)

    def _spawn(self, name: str, command: list[str]) -> ProcessRecord:
        log = self.directory / "log" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab", opener=private_opener) as output:
            start = output.tell()
            child = subprocess.Popen(
                die_with_parent_command(*command) if self._tied else command,
                cwd=self.directory,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C at the terminal goes to the command, which then stops this process.
                start_new_session=True,
            )
        self._children[child.pid] = child
        return ProcessRecord(
            name=name,
            pid=child.pid,
            started=start_time(child.pid) or 0,
            log=str(log),
            log_start=start,
        )

    def _command(
        self, name: str, count: int, plan: ClusterState, port: str | None = None
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
            **({"rest.bind-port": port} if port else {}),
        }
        if kind == "master":
            settings["rest.socket"] = str(socket_of(self.directory, name))
        if (hashes := hashes_of(self.directory)) is not None:
            # A task executor asks for them where it shows its metrics.
            settings["security.rest.tokens"] = str(hashes)
        definitions = [f"-D{key}={value}" for key, value in settings.items()]
        configuration = str(self.directory / CONFIGURATION_FILE)
        command = [sys.executable, "-m", "stoker.cli.main", kind, "--config", configuration]
        return [*command, *definitions]

    def _environment(self) -> dict[str, str]:
        # The configuration file holds all settings; a later restart must find the same ones.
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
        """Only one command at a time starts or stops processes in this directory."""
        try:
            is_ours = (self.directory / _LOCK_FILE).exists()
            exposure = claim_directory(self.directory, is_ours=is_ours)
            if exposure is Exposure.WRITE:
                raise StartupFailed(
                    f"every user of this machine may write in {self.directory}, and so command the "
                    "cluster; take that away, or name another directory with --dir"
                )
            # Whoever could read it could lock it.
            path = self.directory / _LOCK_FILE
            lock = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "w")
        except OSError as error:
            raise StartupFailed(
                f"the directory {self.directory} cannot be used: {error.strerror or error}; "
                "make it writable or name another one with --dir"
            ) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _with_settings(text: str, more: Mapping[str, str]) -> str:
    """The text of a configuration file with more settings."""
    # Imported late: YAML is slow to import, and few clusters need this.
    import yaml  # noqa: PLC0415

    # All values stay the texts that they are: only the type of an option says what they mean.
    return json.dumps({**(yaml.load(text, Loader=yaml.BaseLoader) or {}), **more}, indent=2) + "\n"
