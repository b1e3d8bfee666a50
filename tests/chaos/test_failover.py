"""Leaders and ZooKeeper servers die, freeze and stop, and no stream notices.

`STOKER_CHAOS_SEED` decides the order of the faults; `STOKER_CHAOS=long` repeats them.
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.real_cluster import LONG, SESSION_SECONDS, RealCluster, eventually, real_cluster
from chaos.workload import ROWS, FileStream, batch_job, rows_in
from stoker.core.ids import Ids, JobId
from stoker.core.results import AttemptDetails, JobDetails
from stoker.core.states import JobStatus

SEED = int(os.environ.get("STOKER_CHAOS_SEED", "1"))
ROUNDS = int(os.environ.get("STOKER_CHAOS_ROUNDS", "5")) if LONG else 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with real_cluster(directory, masters=3, task_executors=2, zookeeper=3) as cluster:
        yield cluster


class Story:
    """One stream and many batch jobs, through a sequence of faults."""

    def __init__(self, cluster: RealCluster, directory: Path) -> None:
        self.cluster = cluster
        self.stream = FileStream(directory / "stream")
        self.stream_id = JobId("")
        self._ids = Ids()
        self._directory = directory
        self._acknowledged: dict[JobId, Path] = {}
        self.faults: list[str] = []

    def begin_stream(self) -> None:
        graph = self.stream.job(self._ids)
        self.stream_id = self.cluster.client.submit(graph).job_id
        self.wait_for_batch_after(-1)

    def submit(self, *, seconds: float = 0.0, restarts: int = 0, master: str | None = None) -> None:
        out = self._directory / f"batch-{len(self._acknowledged)}"
        # One that may be run again has to replace what an attempt before it left.
        mode = "overwrite" if restarts else "append"
        graph = batch_job(self._ids, out, seconds=seconds, restarts=restarts, mode=mode)
        client = self.cluster.client_of(master) if master else self.cluster.client
        self._acknowledged[client.submit(graph).job_id] = out

    def attempt(self) -> AttemptDetails:
        return self.cluster.client.job(self.stream_id).regions[0].current

    def batch(self) -> int:
        return _last_batch(self.cluster.client.job(self.stream_id))

    def wait_for_batch_after(self, batch: int) -> None:
        def has_gone_on() -> bool:
            job = self.cluster.client.job(self.stream_id)
            return job.status is JobStatus.RUNNING and _last_batch(job) > batch

        eventually(has_gone_on, f"the stream commits a batch after {batch}")

    # The faults.

    def kill_leader_after_acknowledgement(self) -> None:
        self.submit()
        self.cluster.kill(self.cluster.leader)

    def kill_leader_while_a_job_runs(self) -> None:
        self.submit(seconds=3)
        time.sleep(1)
        self.cluster.kill(self.cluster.leader)

    def stop_leader(self) -> None:
        self.submit(seconds=1)
        self.cluster.signal(self.cluster.leader, signal.SIGTERM)

    def freeze_leader(self) -> None:
        """It wakes up as somebody who was replaced, with work in its hands."""
        frozen, epoch = self.cluster.leader, self.cluster.epoch
        self.submit(seconds=1)
        self.cluster.signal(frozen, signal.SIGSTOP)
        try:
            (other, *_) = [m.name for m in self.cluster.state.masters if m.name != frozen]
            time.sleep(SESSION_SECONDS)
            self.cluster.wait_for_epoch_after(epoch)
            self.submit(master=other)
        finally:
            self.cluster.signal(frozen, signal.SIGCONT)
        eventually(
            lambda: epoch in self.cluster.ended_grants(frozen), f"{frozen} knows that it is over"
        )
        self.submit(master=frozen)
        newest = list(self._acknowledged)[-1]
        accepted = f"job {newest} (ten-rows) is accepted"
        assert accepted in self.cluster.log_of(self.cluster.leader)
        assert accepted not in self.cluster.log_of(frozen)

    def kill_zookeeper_server(self) -> None:
        self.cluster.kill(f"zookeeper-{random.Random(len(self.faults)).randint(1, 3)}")
        self.submit()

    def hurt(self, fault: str) -> None:
        epoch, batch = self.cluster.epoch, self.batch()
        began = time.monotonic()
        getattr(self, fault)()
        if "leader" in fault:
            self.cluster.wait_for_epoch_after(epoch)
        self.wait_for_batch_after(batch)
        self.cluster.restart_the_dead()
        self.cluster.wait_until_whole()
        self.wait_for_batch_after(self.batch())
        self.faults.append(fault)
        print(f"{fault}: {time.monotonic() - began:.1f} s")

    # What must be true.

    def every_acknowledged_job_finished_once(self) -> None:
        for job_id, out in self._acknowledged.items():
            assert self.cluster.client.wait(job_id) is JobStatus.FINISHED
            assert rows_in(out) == ROWS

    def the_sink_equals_the_input(self) -> None:
        self.stream.stop_writing()
        eventually(lambda: self.stream.is_copied, "all that was written is copied")
        balance = self.stream.balance()
        print(f"stream: {balance}; faults: {', '.join(self.faults)}")
        assert (balance.lost, balance.repeated) == (0, 0)

    def no_committed_batch_is_missing(self) -> None:
        (commits,) = (self.cluster.directory / "storage").rglob("commits")
        numbers = sorted(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        assert numbers == list(range(numbers[0], numbers[-1] + 1))

    def end_stream(self) -> None:
        self.cluster.client.cancel(self.stream_id)
        assert self.cluster.client.wait(self.stream_id) is JobStatus.CANCELED
        eventually(
            lambda: not self.cluster.files_of_jobs(), "only results are left of all jobs", 20
        )


def _last_batch(job: JobDetails) -> int:
    """-1 before the first; a job that was only just accepted has no regions yet."""
    found = job.regions[0].current.progress.batch_id if job.regions else None
    return -1 if found is None else found


MASTER_FAULTS = (
    "kill_leader_after_acknowledgement",
    "freeze_leader",
    "kill_zookeeper_server",
    "stop_leader",
    *(("kill_leader_while_a_job_runs",) if LONG else ()),
)


@pytest.mark.timeout(3600 if LONG else 180)
def test_no_fault_of_masters_or_zookeeper_touches_a_stream_and_a_lost_task_executor_repeats_nothing(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """LEAD-*, RUN-*, FAULT-*: and then the task executor of the stream dies, and it resumes."""
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    story = Story(cluster, tmp_path)
    with story.stream:
        story.begin_stream()
        first = story.attempt()
        for _ in range(ROUNDS):
            for fault in chance.sample(MASTER_FAULTS, len(MASTER_FAULTS)):
                story.hurt(fault)
                now = story.attempt()
                assert (now.attempt, now.number) == (first.attempt, 0)
                assert now.progress.run_id == first.progress.run_id
        story.every_acknowledged_job_finished_once()
        story.no_committed_batch_is_missing()

        batch = story.batch()
        assert first.task_executor is not None
        cluster.kill(first.task_executor)
        story.wait_for_batch_after(batch)
        restarted = story.attempt()
        assert restarted.number == 1
        assert restarted.task_executor not in (None, first.task_executor)
        assert restarted.progress.query_id == first.progress.query_id
        assert restarted.progress.run_id != first.progress.run_id
        story.no_committed_batch_is_missing()
        story.the_sink_equals_the_input()
    story.end_stream()
