"""Leaders and ZooKeeper servers die, freeze and stop.

Invariant under attack: a fault of the control plane does not interrupt any stream.
`TEST_CHAOS_SEED` decides the order of the faults; `TEST_CHAOS=long` repeats them.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.fault_scenario import FaultScenario
from chaos.real_cluster import LONG, RealCluster, real_cluster

SEED = int(os.environ.get("TEST_CHAOS_SEED", "1"))
ROUNDS = int(os.environ.get("TEST_CHAOS_ROUNDS", "5")) if LONG else 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with real_cluster(directory, masters=3, task_executors=2, zookeeper=3) as cluster:
        yield cluster


MASTER_FAULTS = (
    "kill_leader_after_acknowledgement",
    "freeze_leader",
    "kill_zookeeper_server",
    "stop_leader",
    *(("kill_leader_while_a_job_runs",) if LONG else ()),
)


@pytest.mark.timeout(3600 if LONG else 420)
def test_no_fault_of_masters_or_zookeeper_touches_a_stream_and_a_lost_task_executor_repeats_nothing(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """At the end the task executor of the stream dies, and the stream resumes on the other one.

    (FAULT-01, FAULT-02, FAULT-06, FAULT-08)
    """
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    scenario = FaultScenario(cluster, tmp_path)
    with scenario.stream:
        scenario.begin_stream()
        first = scenario.attempt()
        for _ in range(ROUNDS):
            for fault in chance.sample(MASTER_FAULTS, len(MASTER_FAULTS)):
                scenario.inject_fault(fault)
                now = scenario.attempt()
                assert (now.attempt, now.number) == (first.attempt, 0)
                assert now.progress.run_id == first.progress.run_id
        scenario.every_acknowledged_job_finished_once()
        scenario.no_committed_batch_is_missing()

        batch = scenario.batch()
        assert first.task_executor is not None
        cluster.kill(first.task_executor)
        scenario.wait_for_batch_after(batch)
        restarted = scenario.attempt()
        assert restarted.number == 1
        assert restarted.task_executor not in (None, first.task_executor)
        assert restarted.progress.query_id == first.progress.query_id
        assert restarted.progress.run_id != first.progress.run_id
        scenario.no_committed_batch_is_missing()
        scenario.the_sink_equals_the_input()
    scenario.end_stream()
