"""A cluster of real processes for chaos tests to damage, and ways to observe it."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from builders import wait_until
from chaos.cables import CabledCluster, Cables
from chaos.zookeeper_log import ZooKeeperLog
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import StokerError
from stoker.core.failpoints import ENVIRONMENT_VARIABLE
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import (
    ClusterState,
    ProcessRecord,
    previous_port_of,
    processes_of,
    url_of,
)
from stoker.processes.local.zookeeper import LocalZooKeeper

SESSION_SECONDS = 4.0
HEARTBEAT_TIMEOUT_SECONDS = 8.0
START_SECONDS = 300.0
"""Enough for two starts of Spark on a busy machine."""
LONG = os.environ.get("TEST_CHAOS") == "long"

CONFIGURATION = f"""
rest.bind-port: '0'
high-availability.zookeeper.client.session-timeout: {SESSION_SECONDS:g} s
taskmanager.memory.spark-heap: 512 mb
taskmanager.numberOfTaskSlots: 3
runner.warm: 1
heartbeat.interval: 1 s
heartbeat.timeout: {HEARTBEAT_TIMEOUT_SECONDS:g} s
cluster.registration.error-delay: 1 s
cluster.registration.refused-registration-delay: 1 s
"""

_PATIENT = ClientOptions(
    retries=200,
    first_contact=timedelta(seconds=20),
    retry_delay=timedelta(milliseconds=100),
    timeout=timedelta(seconds=10),
    connect_timeout=timedelta(seconds=1),
)
_GRANT = re.compile(r"(\S+) leads, epoch (\d+)")
_END_OF_GRANT = re.compile(r"(\S+) leads no longer, epoch (\d+)")


class RealCluster:
    def __init__(self, local: LocalCluster) -> None:
        self._local = local
        self.directory = local.directory

    @property
    def state(self) -> ClusterState:
        state = self._local.state
        assert state is not None
        return state

    @property
    def client(self) -> BlockingClient:
        """A client of all masters, including dead ones that will be restarted."""
        ports = [previous_port_of(self.directory, master.name) for master in self.state.masters]
        urls = [f"http://127.0.0.1:{port}" for port in ports if port]
        return BlockingClient(",".join(urls), _PATIENT)

    def client_of(self, name: str) -> BlockingClient:
        """A client of one master only."""
        url = url_of(self.directory, self.process(name))
        assert url is not None
        return BlockingClient(url, _PATIENT)

    def process(self, name: str) -> ProcessRecord:
        (record,) = [record for record in self.state.processes if record.name == name]
        return record

    def signal(self, name: str, number: signal.Signals) -> None:
        record = self.process(name)
        assert record.alive, f"{name} is already dead"
        os.kill(record.pid, number)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        wait_through_outages(lambda: not self.process(name).alive, f"{name} is dead")

    def children_of(self, name: str, *, words: str) -> list[ProcessRecord]:
        """Descendants of this process whose command lines contain these words."""
        below = {self.process(name).pid}
        members = processes_of(self.directory)
        for _ in range(4):
            below |= {member.pid for member in members if _parent(member.pid) in below}
        return [member for member in members if member.pid in below and words in member.name]

    def runners_of(self, name: str) -> list[ProcessRecord]:
        """The runners; only their parent distinguishes them from the zygote that forked them."""
        forks = self.children_of(name, words="zygote")
        pids = {fork.pid for fork in forks}
        return [fork for fork in forks if _parent(fork.pid) in pids]

    def spark_server_of(self, name: str) -> ProcessRecord:
        """The Spark server, but not its forks, which look like the JVM until they call exec."""
        found = self.children_of(name, words="bin/java")
        pids = {each.pid for each in found}
        (server,) = (each for each in found if _parent(each.pid) not in pids)
        return server

    def tree_of(self, name: str) -> list[ProcessRecord]:
        """The process and all its descendants."""
        return [self.process(name), *self.children_of(name, words="")]

    def zookeeper_log(self) -> ZooKeeperLog:
        url = self.state.high_availability
        assert url is not None
        directory = self.directory / "zookeeper"
        java = LocalZooKeeper(directory, servers=len(self.state.zookeeper)).command(0)[0]
        return ZooKeeperLog(directory, url, java)

    def log_of(self, name: str) -> str:
        """The log of the process, including its previous lives."""
        return (self.directory / "log" / f"{name}.log").read_text(errors="replace")

    def grants(self) -> dict[int, str]:
        """Names of the leaders, by epoch."""
        texts = [self.log_of(master.name) for master in self.state.masters]
        found = [match for text in texts for match in _GRANT.findall(text)]
        epochs = [int(epoch) for _name, epoch in found]
        assert len(epochs) == len(set(epochs)), f"an epoch had two leaders: {found}"
        return {int(epoch): name for name, epoch in found}

    def ended_grants(self, name: str) -> set[int]:
        return {int(epoch) for _name, epoch in _END_OF_GRANT.findall(self.log_of(name))}

    @property
    def epoch(self) -> int:
        return max(self.grants())

    @property
    def leader(self) -> str:
        grants = self.grants()
        return grants[max(grants)]

    def wait_for_epoch_after(self, epoch: int) -> str:
        wait_through_outages(lambda: self.epoch > epoch, f"there is a leader after epoch {epoch}")
        return self.leader

    def restart_dead_processes(self, failpoint: str | None = None) -> None:
        """If a failpoint is given, the restarted processes die there, but only in this life."""
        with _armed_at_start(failpoint):
            self._local.start_missing()

    def wait_until_ready(self) -> None:
        self._local.wait_until_ready(seconds=START_SECONDS)

    def files_of_jobs(self) -> set[str]:
        """All files in the storage except what outlives jobs, and the coordinator's own files."""
        storage = self.directory / "storage"
        # Folders vanish meanwhile, which os.walk ignores.
        files = {
            (Path(folder) / name).relative_to(storage)
            for folder, _, names in os.walk(storage)
            for name in names
        }
        others = ("results", "retained", "coordinator")
        return {str(each) for each in files if len(each.parts) > 1 and each.parts[0] not in others}


@contextmanager
def real_cluster(
    directory: Path,
    *,
    masters: int,
    task_executors: int,
    zookeeper: int = 0,
    configuration: str = "",
    cables: Cables | None = None,
) -> Iterator[RealCluster]:
    """Start a cluster, and stop it at the end; no process may be left, and none may need a kill."""
    local = (
        LocalCluster(directory, tied=True)
        if cables is None
        else CabledCluster(directory, cables, tied=True)
    )
    messages: list[str] = []
    try:
        local.start(
            masters=masters,
            task_executors=task_executors,
            zookeeper=zookeeper,
            configuration=CONFIGURATION + configuration,
        )
        local.wait_until_ready(seconds=START_SECONDS)
        yield RealCluster(local)
    finally:
        local.stop(messages.append)
    assert processes_of(local.directory) == []
    assert messages == [], messages


@contextmanager
def _armed_at_start(failpoint: str | None) -> Iterator[None]:
    """Processes inherit the environment at the moment of their start."""
    if failpoint is None:
        yield
        return
    os.environ[ENVIRONMENT_VARIABLE] = failpoint
    try:
        yield
    finally:
        del os.environ[ENVIRONMENT_VARIABLE]


def wait_through_outages(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait until `condition` is true; while no master answers, it is not."""
    wait_until(condition, what, seconds, despite=(StokerError,))


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
