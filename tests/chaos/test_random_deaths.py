"""Every process that a stream depends on is killed, frozen or cut off.

Invariant under attack: every record of the stream is written exactly once. The test belongs to the
long form only (`TEST_CHAOS=long`), because it starts Spark many times. `TEST_CHAOS_SEED` sets
the order of the faults and their victims, `TEST_CHAOS_FAULTS` (names with commas) selects the
faults. The seed is printed.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.cables import Cables, cut, rpc_of, to_zookeeper
from chaos.fault_scenario import FaultScenario
from chaos.real_cluster import (
    HEARTBEAT_TIMEOUT_SECONDS,
    LONG,
    SESSION_SECONDS,
    RealCluster,
    real_cluster,
    wait_through_outages,
)
from stoker.core.states import ExecutionState
from stoker.processes.local.cluster_state import ProcessRecord, send

SEED = int(os.environ.get("TEST_CHAOS_SEED", "1"))
ONLY = [name for name in os.environ.get("TEST_CHAOS_FAULTS", "").split(",") if name]
ROUNDS = int(os.environ.get("TEST_CHAOS_ROUNDS", "5"))
LEASE_SECONDS = 20.0
MARGIN_SECONDS = 3.0

CONFIGURATION = f"""
task.lease.duration: {LEASE_SECONDS:g} s
task.lease.margin: {MARGIN_SECONDS:g} s
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 1000
restart-strategy.fixed-delay.delay: 200 ms
"""


class DeathScenario(FaultScenario):
    def __init__(
        self, cluster: RealCluster, directory: Path, cables: Cables, chance: random.Random
    ) -> None:
        super().__init__(cluster, directory)
        self._cables = cables
        self._chance = chance
        self.harmless_faults: dict[str, Callable[[], None]] = {
            "cut_leader_off": self.cut_leader_off,
            "cut_task_executor_off": self.cut_task_executor_off,
            "hold_up_calls_of_task_executor": lambda: self.hold_up_calls(self.holder()),
            "hold_up_calls_of_leader": lambda: self.hold_up_calls(self.cluster.leader),
            "freeze_spark_server": lambda: self.freeze_for(3, [self.spark_server()]),
            "freeze_zookeeper_server": self.freeze_zookeeper_server,
        }
        """Faults through which the attempt of the stream continues."""
        self.fatal_faults: dict[str, Callable[[], None]] = {
            "kill_runner": self.kill_runner,
            "kill_spark_server": lambda: self.kill_process(self.spark_server()),
            "kill_task_executor": lambda: self.cluster.kill(self.holder()),
            "cut_task_executor_from_masters": self.cut_task_executor_from_masters,
            "freeze_machine": self.freeze_machine,
            "freeze_task_executor_alone": self.freeze_task_executor_alone,
            "freeze_task_executor_and_kill_runner": self.freeze_task_executor_and_kill_runner,
        }
        """Faults that may end the attempt of the stream, so that another attempt follows."""

    def holder(self) -> str:
        """Wait until a task executor runs the stream, and return its name."""
        found: list[str] = []

        def is_held() -> bool:
            attempt = self.attempt()
            found[:] = [str(attempt.task_executor)] if attempt.task_executor else []
            return bool(found) and attempt.state is ExecutionState.RUNNING

        wait_through_outages(is_held, "a task executor runs the stream")
        return found[0]

    def spark_server(self) -> ProcessRecord:
        return self.cluster.spark_server_of(self.holder())

    def kill_runner(self) -> None:
        """Kill a random runner: the stream's, a batch job's or a warm one."""
        self.submit(seconds=2, restarts=100)
        runners = self.cluster.runners_of(self.holder())
        assert runners
        self.kill_process(self._chance.choice(runners))

    def kill_process(self, record: ProcessRecord) -> None:
        send(record, signal.SIGKILL)
        wait_through_outages(lambda: not record.alive, f"{record.name[:60]} is dead")

    def freeze_for(self, seconds: float, records: list[ProcessRecord]) -> None:
        with frozen(records):
            time.sleep(seconds)

    def freeze_zookeeper_server(self) -> None:
        name = f"zookeeper-{self._chance.randint(1, 3)}"
        self.freeze_for(SESSION_SECONDS * 1.5, [self.cluster.process(name)])
        self.submit(restarts=100)

    def freeze_machine(self) -> None:
        """Freeze a task executor and its engine for longer than its leases; another takes over."""
        with frozen(self.cluster.tree_of(self.holder())):
            self.wait_until_taken_over()

    def freeze_task_executor_alone(self) -> None:
        """The Spark server and the runners are not frozen, and end when their leases expire."""
        holder = self.holder()
        runner = self.runner_of_the_stream()
        with frozen([self.cluster.process(holder)]):
            self.wait_until_taken_over(meanwhile=lambda: not runner.alive)

    def freeze_task_executor_and_kill_runner(self) -> None:
        """Only the watchdog of the Spark server is left to end the query when its lease expires."""
        holder, server, runner = self.holder(), self.spark_server(), self.runner_of_the_stream()
        with frozen([self.cluster.process(holder)]):
            self.kill_process(runner)
            self.wait_until_taken_over(meanwhile=lambda: not server.alive)

    def runner_of_the_stream(self) -> ProcessRecord:
        attempt = self.attempt().attempt
        (runner,) = (
            each
            for each in self.cluster.runners_of(self.holder())
            if Path(os.readlink(f"/proc/{each.pid}/cwd")).name == attempt
        )
        return runner

    def wait_until_taken_over(self, meanwhile: Callable[[], bool] = lambda: True) -> None:
        """Wait for an attempt at another task executor; then `meanwhile` must be true at once."""
        holder, attempt = self.holder(), self.attempt().attempt

        def is_taken_over() -> bool:
            now = self.attempt()
            return now.attempt != attempt and now.task_executor not in (None, holder)

        wait_through_outages(is_taken_over, "the stream is taken over", LEASE_SECONDS + 60)
        assert meanwhile(), "the previous attempt still runs"
        self.wait_for_batch_after(self.batch())

    def cut_leader_off(self) -> None:
        """The leader stops leading before it can know of another leader."""
        leader, epoch = self.cluster.leader, self.cluster.epoch
        with cut(self._cables, to_zookeeper(leader)):
            self.cluster.wait_for_epoch_after(epoch)
            assert self.cluster.leader != leader
            self.submit(restarts=100)
        wait_through_outages(
            lambda: epoch in self.cluster.ended_grants(leader),
            f"{leader} knows that its leadership has ended",
        )

    def cut_task_executor_off(self) -> None:
        """Cut a task executor off from ZooKeeper; its masters can still renew its leases."""
        with cut(self._cables, to_zookeeper(self.holder())):
            self.submit(restarts=100)
            time.sleep(SESSION_SECONDS * 1.5)

    def hold_up_calls(self, process: str) -> None:
        """Delay calls for longer than the heartbeat timeout, and for less than the shortest lease.

        The last renewal may be a quarter of a lease old when the delay begins.
        """
        lease_left = LEASE_SECONDS * 3 / 4 - MARGIN_SECONDS
        with cut(self._cables, rpc_of(process)):
            time.sleep((HEARTBEAT_TIMEOUT_SECONDS + lease_left) / 2)

    def cut_task_executor_from_masters(self) -> None:
        """The task executor sees in ZooKeeper that the masters live, so its tasks must end."""
        runner = self.runner_of_the_stream()
        with cut(self._cables, rpc_of(self.holder())):
            self.wait_until_taken_over(meanwhile=lambda: not runner.alive)

    def inject(self, name: str) -> None:
        began, batch, before = time.monotonic(), self.batch(), self.attempt()
        (self.harmless_faults | self.fatal_faults)[name]()
        self.wait_for_batch_after(batch)
        self.cluster.restart_dead_processes()
        self.cluster.wait_until_ready()
        self.wait_for_batch_after(self.batch())
        now = self.attempt()
        if name in self.harmless_faults:
            assert (now.attempt, now.progress.run_id) == (before.attempt, before.progress.run_id)
        assert now.progress.query_id == before.progress.query_id
        self.faults.append(name)
        print(f"{name}: {time.monotonic() - began:.1f} s")


@contextmanager
def frozen(records: list[ProcessRecord]) -> Iterator[None]:
    try:
        for record in records:
            send(record, signal.SIGSTOP)
        yield
    finally:
        for record in reversed(records):
            send(record, signal.SIGCONT)


@pytest.fixture(scope="module")
def cables() -> Iterator[Cables]:
    with Cables() as cables:
        yield cables


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cables: Cables) -> Iterator[RealCluster]:
    with real_cluster(
        tmp_path_factory.mktemp("cluster"),
        masters=2,
        task_executors=2,
        zookeeper=3,
        configuration=CONFIGURATION,
        cables=cables,
    ) as cluster:
        yield cluster


@pytest.mark.skipif(not LONG, reason="part of the long form: TEST_CHAOS=long")
@pytest.mark.timeout(7200)
def test_deaths_freezes_and_cuts_lose_and_repeat_no_record(
    cluster: RealCluster, cables: Cables, tmp_path: Path
) -> None:
    """All faults are injected, in a random order."""
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    scenario = DeathScenario(cluster, tmp_path, cables, chance)
    with scenario.stream:
        scenario.begin_stream()
        for _ in range(ROUNDS):
            names = ONLY or sorted(scenario.harmless_faults | scenario.fatal_faults)
            for name in chance.sample(names, len(names)):
                scenario.inject(name)
        scenario.every_acknowledged_job_finished_once()
        scenario.no_committed_batch_is_missing()
        scenario.the_sink_equals_the_input()
    scenario.end_stream()
