"""Leaders are killed in the middle of upgrades and rescales, and the next leader completes them.

Invariant under attack: a stream that is replaced again and again writes each number exactly once.
The test takes minutes, with real processes and real Spark. It runs only with TEST_SAVEPOINTS=long
or TEST_CHAOS=long.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.real_cluster import LONG, RealCluster, real_cluster, wait_through_outages
from integration.cli.distinct_stream import DistinctStream
from stoker.api.operations import ReplacementState
from stoker.client.calls import ReplacementSettings
from stoker.client.source import load
from stoker.core.ids import JobId
from stoker.core.replacements import ReplacementPhase
from stoker.core.states import JobStatus

pytestmark = [
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        not LONG and os.environ.get("TEST_SAVEPOINTS") != "long",
        reason="minutes on a busy machine: TEST_SAVEPOINTS=long or TEST_CHAOS=long",
    ),
]
TIMEOUT_SECONDS = 240
ANY_PHASE = frozenset(ReplacementPhase)
"""Any phase, so the first one that is seen: STOPPING, unless the machine is very busy."""
DEATHS = [
    ("upgrade", ANY_PHASE),
    ("rescale", frozenset({ReplacementPhase.DIVIDING})),
    ("upgrade", frozenset({ReplacementPhase.WATCHING})),
    ("rescale", ANY_PHASE),
    ("rescale", frozenset({ReplacementPhase.WATCHING})),
]


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A cluster with a standby master."""
    with real_cluster(tmp_path_factory.mktemp("cluster"), masters=2, task_executors=1) as cluster:
        yield cluster


class ReplacementScenario:
    def __init__(self, cluster: RealCluster, root: Path) -> None:
        self.cluster = cluster
        self.stream = DistinctStream(root / "stream")
        self._saved = str(root / "saved")
        self._versions = 1
        self._partitions = 2
        self.job = JobId("")

    def begin(self) -> None:
        loaded = load(self.stream.version("version-1"))
        self.job = self.cluster.client.submit(loaded.graph, loaded.files_by_hash).job_id
        self.write(5)

    def write(self, count: int) -> None:
        self.stream.write(count)
        wait_through_outages(
            lambda: self.stream.is_caught_up, "every number is written once", TIMEOUT_SECONDS
        )

    def replace(self, kind: str, fatal: frozenset[ReplacementPhase]) -> ReplacementState:
        """Replace the job, and kill the leader once, in the first of these phases that is seen."""
        trigger = self._begin_upgrade() if kind == "upgrade" else self._begin_rescale()
        self.stream.write(4)
        deaths: list[str] = []

        def kill_leader_in_phase(state: ReplacementState) -> None:
            if state.phase in fatal and not deaths:
                leader = self.cluster.leader
                self.cluster.kill(leader)
                deaths.append(f"{leader} in {state.phase}")

        outcome = self.cluster.client.replacement(self.job, trigger, kill_leader_in_phase)
        print(f"{kind}: {deaths}, then {outcome.phase}")
        assert deaths
        return outcome

    def _begin_upgrade(self) -> str:
        self._versions += 1
        settings = {"spark.sql.shuffle.partitions": str(self._partitions)}
        version = self.stream.version(f"version-{self._versions}", configuration=settings)
        loaded = load(version)
        return self.cluster.client.begin_upgrade(
            self.job, loaded.graph, loaded.files_by_hash, settings=self._settings
        )

    def _begin_rescale(self) -> str:
        self._partitions += 1
        return self.cluster.client.begin_rescale(
            self.job, self._partitions, settings=self._settings
        )

    @property
    def _settings(self) -> ReplacementSettings:
        return ReplacementSettings(directory=self._saved, window_seconds=5.0)

    def live_jobs(self) -> list[JobId]:
        jobs = self.cluster.client.jobs()
        return [job.jid for job in jobs if not job.state.globally_terminal]


def test_the_next_leader_completes_the_replacement_of_a_killed_leader_without_loss_or_repetition(
    cluster: RealCluster, tmp_path: Path
) -> None:
    scenario = ReplacementScenario(cluster, tmp_path)
    scenario.begin()
    for kind, fatal in DEATHS:
        before, epoch = scenario.job, cluster.epoch
        outcome = scenario.replace(kind, fatal)
        assert outcome.phase is ReplacementPhase.DONE, outcome
        assert outcome.job_id != before
        assert cluster.epoch > epoch
        assert cluster.client.wait(before) is JobStatus.FINISHED
        scenario.job = outcome.job_id
        scenario.write(3)
        assert scenario.live_jobs() == [scenario.job]
        cluster.restart_dead_processes()
        cluster.wait_until_ready()
    settings = cluster.client.job(scenario.job).configuration
    assert settings["spark.sql.shuffle.partitions"] == "5"
    cluster.client.cancel(scenario.job)
    assert cluster.client.wait(scenario.job) is JobStatus.CANCELED
    assert scenario.stream.is_caught_up
