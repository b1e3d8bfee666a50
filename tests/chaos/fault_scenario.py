"""A stream and many batch jobs on a cluster of real processes, under a sequence of faults."""

import random
import signal
import time
from pathlib import Path

from chaos.real_cluster import SESSION_SECONDS, RealCluster, wait_through_outages
from chaos.workload import ROWS, FileStream, batch_job, rows_in
from stoker.core.ids import Ids, JobId
from stoker.core.results import AttemptDetails, JobDetails
from stoker.core.states import JobStatus


class FaultScenario:
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
        # A job that may restart has to overwrite the output of its previous attempt.
        mode = "overwrite" if restarts else "append"
        graph = batch_job(self._ids, out, seconds=seconds, restarts=restarts, mode=mode)
        client = self.cluster.client_of(master) if master else self.cluster.client
        self._acknowledged[client.submit(graph).job_id] = out

    def attempt(self) -> AttemptDetails:
        return self.cluster.client.job(self.stream_id).regions[0].current

    def batch(self) -> int:
        return _last_batch(self.cluster.client.job(self.stream_id))

    def wait_for_batch_after(self, batch: int) -> None:
        def has_advanced() -> bool:
            job = self.cluster.client.job(self.stream_id)
            return job.status is JobStatus.RUNNING and _last_batch(job) > batch

        expected = f"the stream commits a batch after {batch}"
        # A Spark server that was killed by the previous fault may still be starting.
        wait_through_outages(has_advanced, expected, seconds=180)

    # Faults.

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
        """The leader is frozen in the middle of its work, and continues after it was replaced."""
        frozen, epoch = self.cluster.leader, self.cluster.epoch
        log = self.cluster.zookeeper_log()
        before = log.leader()
        self.submit(seconds=1)
        self.cluster.signal(frozen, signal.SIGSTOP)
        try:
            (other, *_) = [m.name for m in self.cluster.state.masters if m.name != frozen]
            time.sleep(SESSION_SECONDS)
            self.cluster.wait_for_epoch_after(epoch)
            self.submit(master=other)
        finally:
            self.cluster.signal(frozen, signal.SIGCONT)
        wait_through_outages(
            lambda: epoch in self.cluster.ended_grants(frozen),
            f"{frozen} knows that its leadership has ended",
        )
        assert before.session in log.sessions()
        assert log.writes_of(before.session, after=before.raised_at - 1)
        after = log.leader()
        assert after.session != before.session
        assert log.writes_of(before.session, after=after.raised_at) == []
        self.submit(master=frozen)
        newest = list(self._acknowledged)[-1]
        accepted = f"job {newest} (ten-rows) accepted"
        assert accepted in self.cluster.log_of(self.cluster.leader)
        assert accepted not in self.cluster.log_of(frozen)

    def kill_zookeeper_server(self) -> None:
        self.cluster.kill(f"zookeeper-{random.Random(len(self.faults)).randint(1, 3)}")
        self.submit()

    def inject_fault(self, fault: str) -> None:
        epoch, batch = self.cluster.epoch, self.batch()
        began = time.monotonic()
        getattr(self, fault)()
        if "leader" in fault:
            self.cluster.wait_for_epoch_after(epoch)
        self.wait_for_batch_after(batch)
        self.cluster.restart_dead_processes()
        self.cluster.wait_until_ready()
        self.wait_for_batch_after(self.batch())
        self.faults.append(fault)
        print(f"{fault}: {time.monotonic() - began:.1f} s")

    # Invariants.

    def every_acknowledged_job_finished_once(self) -> None:
        for job_id, out in self._acknowledged.items():
            assert self.cluster.client.wait(job_id) is JobStatus.FINISHED
            assert rows_in(out) == ROWS

    def the_sink_equals_the_input(self) -> None:
        self.stream.stop_writing()
        wait_through_outages(lambda: self.stream.is_copied, "all input is copied")
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
        wait_through_outages(
            lambda: not self.cluster.files_of_jobs(), "only results are left of all jobs", 20
        )


def _last_batch(job: JobDetails) -> int:
    """-1 before the first batch; a job that was just accepted has no regions yet."""
    found = job.regions[0].current.progress.batch_id if job.regions else None
    return -1 if found is None else found
