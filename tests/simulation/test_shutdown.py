"""The shutdown of a whole cluster (ENTRY-04, DISP-16, DISP-17, RUN-05, RUN-06).

Invariants under attack: every process ends, every job ends on record or stays cancelled on record,
and nothing runs again afterwards.
"""

import asyncio
from pathlib import Path

import pytest

from simulation.faults import ProcessKiller, kill_leader, leader_of
from simulation.random_faults import SEEDS, FaultInjector
from simulation.scenarios import (
    FOREVER,
    MANY_RESTARTS,
    STOP,
    dispatcher_of,
    graph_path,
    job,
    simulate,
    stream,
    wait_until_running,
    with_file,
)
from stoker.core.errors import ClusterIsEnding, RecipientUnreachable, StokerError
from stoker.core.failpoints import SHUTDOWN_FAILPOINTS, armed
from stoker.core.ids import JobId
from stoker.core.states import ApplicationStatus, JobStatus
from stoker.ha import keys
from stoker.ha.coordinator import Create, Put
from stoker.ha.record import decode_record, encode
from stoker.ha.stores.shutdowns import ShutdownRecord, ShutdownStage
from stoker.testing.simulated_cluster import SimulatedCluster

ON_THE_WAY = sorted(name for name in SHUTDOWN_FAILPOINTS if "forgetting" not in name)


async def request_shutdown(cluster: SimulatedCluster) -> None:
    await cluster.ask(lambda leader: leader.shut_down_cluster(ApplicationStatus.SUCCEEDED))


async def wait_until_all_have_ended(cluster: SimulatedCluster, *, within: float = 200.0) -> None:
    tasks = [process.task for process in cluster.processes.values()]
    await asyncio.wait(tasks, timeout=within)
    assert sorted(cluster.ended_by_themselves()) == sorted(cluster.processes)


async def restart_cluster(cluster: SimulatedCluster) -> None:
    for name in sorted(cluster.processes):
        await cluster.stop(name)
        cluster.start(name)


def record_of(cluster: SimulatedCluster) -> ShutdownRecord | None:
    found = cluster.coordination.tree().get(keys.SHUTDOWN)
    return None if found is None else decode_record(found.value, ShutdownRecord, keys.SHUTDOWN)


def jobs_on_record(cluster: SimulatedCluster) -> list[str]:
    prefixes = ("jobs/", "wishes/", "attempts/")
    return [key for key in cluster.coordination.all_keys() if key.startswith(prefixes)]


async def submit_two_jobs(cluster: SimulatedCluster) -> tuple[JobId, JobId]:
    """Submit one job that finishes, and one that would run for ever."""
    plain = await cluster.submit(job(cluster))
    endless = await cluster.submit(
        job(cluster, seconds=FOREVER, sinks=2, streaming=True, cancel_seconds=5)
    )
    assert await cluster.wait_for_end(plain) is JobStatus.FINISHED
    await asyncio.sleep(3)
    return plain, endless


async def check_after_restart(cluster: SimulatedCluster, plain: JobId, endless: JobId) -> None:
    """Check that a restarted cluster serves, knows how all jobs ended, and runs none of them."""
    attempts = len(cluster.history.attempts)
    await restart_cluster(cluster)
    assert await cluster.status(plain) is JobStatus.FINISHED
    assert await cluster.status(endless) is JobStatus.CANCELED
    assert await cluster.wait_for_end(await cluster.submit(job(cluster))) is JobStatus.FINISHED
    await asyncio.sleep(400)
    assert cluster.ended_by_themselves() == []
    assert len(cluster.history.attempts) == attempts + 1


def test_all_processes_end_after_the_jobs_and_a_restart_finds_the_results(
    tmp_path: Path,
) -> None:
    """No process ends before the cancelled jobs are cleaned up (ENTRY-04, DISP-17)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        plain, endless = await submit_two_jobs(cluster)
        await request_shutdown(cluster)
        record = record_of(cluster)
        assert record is not None
        assert record.stage is ShutdownStage.ENDING
        assert cluster.ended_by_themselves() == []
        assert await cluster.wait_for_end(endless) is JobStatus.CANCELED
        await wait_until_all_have_ended(cluster)
        assert jobs_on_record(cluster) == []
        assert not [path for path in cluster.storage.files if path.startswith("jobs/")]
        record = record_of(cluster)
        assert record is not None
        assert record.stage is ShutdownStage.OVER
        assert record.status is ApplicationStatus.SUCCEEDED
        await check_after_restart(cluster, plain, endless)

    simulate(tmp_path, scenario, masters=3)


def test_a_cluster_without_jobs_ends_at_once_and_can_be_shut_down_again_after_a_restart(
    tmp_path: Path,
) -> None:
    """The second shutdown is a new one, not the recorded first one (DISP-16)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        nonces = set()
        for _ in range(2):
            await request_shutdown(cluster)
            await request_shutdown(cluster)
            await wait_until_all_have_ended(cluster, within=10)
            record = record_of(cluster)
            assert record is not None
            nonces.add(record.nonce)
            await restart_cluster(cluster)
            await cluster.jobs()
        assert len(nonces) == 2

    simulate(tmp_path, scenario)


def test_no_new_job_is_accepted_during_a_shutdown(tmp_path: Path) -> None:
    """The files of a refused one are deleted."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=FOREVER, streaming=True, cancel_seconds=5)
        await cluster.submit(graph)
        await asyncio.sleep(3)
        await request_shutdown(cluster)
        refused, path = with_file(cluster, job(cluster))
        with pytest.raises(ClusterIsEnding, match="start it again"):
            await cluster.submit(refused)
        assert path not in cluster.storage.files
        assert await cluster.submit(graph) == graph.job_id, "the job was accepted before"
        await wait_until_all_have_ended(cluster)
        await restart_cluster(cluster)

    simulate(tmp_path, scenario)


def test_a_submission_under_way_is_not_left_behind_by_a_shutdown(tmp_path: Path) -> None:
    """A job that is accepted during the request ends on record like every other."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=FOREVER, streaming=True)
        ends: list[asyncio.Task[None]] = []
        with armed(
            "job-graphs.before-record",
            lambda: ends.append(asyncio.ensure_future(request_shutdown(cluster))),
        ):
            await cluster.submit(graph)
        await asyncio.gather(*ends)
        await wait_until_all_have_ended(cluster)
        assert jobs_on_record(cluster) == []
        await restart_cluster(cluster)
        assert await cluster.status(graph.job_id) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


def test_an_unreachable_executor_does_not_hold_up_a_shutdown_for_ever(
    tmp_path: Path,
) -> None:
    """The executor's attempts end with their leases; it ends when it learns of the shutdown."""

    async def scenario(cluster: SimulatedCluster) -> None:
        endless = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        await asyncio.sleep(3)
        [attempt] = cluster.history.attempts
        cluster.freeze(attempt.executor)
        await request_shutdown(cluster)
        await asyncio.sleep(300)
        assert set(cluster.processes) - set(cluster.ended_by_themselves()) == {attempt.executor}
        cluster.thaw(attempt.executor)
        await wait_until_all_have_ended(cluster, within=60)
        await restart_cluster(cluster)
        assert await cluster.wait_for_end(endless) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


@pytest.mark.parametrize("has_boundary", [True, False])
def test_a_savepoint_under_way_is_finished_before_a_shutdown(
    tmp_path: Path, has_boundary: bool
) -> None:
    """A stop that succeeds ends its job; a job whose stop fails is cancelled."""

    async def scenario(cluster: SimulatedCluster) -> None:
        more = {} if has_boundary else {"fake.no-boundary": "1"}
        job_id = await cluster.submit(stream(cluster, **more))
        await wait_until_running(cluster, job_id)
        await cluster.ask(lambda leader: leader.trigger_savepoint(job_id, "1" * 32, STOP))
        await request_shutdown(cluster)
        status = await cluster.ask(lambda leader: leader.savepoint_status(job_id, "1" * 32, 60))
        assert (status.taken is not None) is has_boundary
        with pytest.raises(StokerError):
            await cluster.ask(lambda leader: leader.trigger_savepoint(job_id, "2" * 32, STOP))
        await wait_until_all_have_ended(cluster)
        await restart_cluster(cluster)
        ended = JobStatus.FINISHED if has_boundary else JobStatus.CANCELED
        assert await cluster.status(job_id) is ended

    simulate(tmp_path, scenario)


def test_a_job_in_quarantine_keeps_its_bytes_and_its_cancellation(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        await asyncio.sleep(3)
        path = graph_path(cluster, job_id)
        kept = cluster.storage.files[path]
        cluster.storage.files[path] = b"\x00"
        leader = await kill_leader(cluster)
        await asyncio.sleep(10)
        await request_shutdown(cluster)
        await wait_until_all_have_ended(cluster)
        assert cluster.storage.files[path] == b"\x00"
        cluster.storage.files[path] = kept
        cluster.start(leader)
        await restart_cluster(cluster)
        await asyncio.sleep(5)
        assert await cluster.wait_for_end(job_id) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("name", ON_THE_WAY)
def test_the_next_leader_completes_a_shutdown_that_its_leader_did_not_survive(
    tmp_path: Path, name: str, is_restarted: bool
) -> None:
    """Whether or not a service manager restarts the dead master (ENTRY-04)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        plain, endless = await submit_two_jobs(cluster)
        killer = ProcessKiller(cluster)
        with armed(name, killer.reached):
            await request_shutdown_despite_deaths(cluster)
            dead = await killer.wait_for_death()
        if is_restarted and name != "shutdown.after-over":
            cluster.start(dead.name)
        await wait_until_all_have_ended(cluster)
        assert jobs_on_record(cluster) == []
        if dead.name not in cluster.processes:
            cluster.start(dead.name)
        await check_after_restart(cluster, plain, endless)

    simulate(tmp_path, scenario, masters=3)


async def request_shutdown_despite_deaths(cluster: SimulatedCluster) -> None:
    """Repeat the request like a client; in the end no master may be left to answer."""
    while record_of(cluster) is None:
        asking = asyncio.create_task(request_shutdown(cluster))
        await asyncio.wait({asking}, timeout=30)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


def test_a_master_that_was_frozen_during_a_shutdown_ends_when_it_wakes_up(
    tmp_path: Path,
) -> None:
    """The frozen master was the leader and did not learn of the shutdown (RUN-06)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        plain, endless = await submit_two_jobs(cluster)
        leader = leader_of(cluster)
        old = await dispatcher_of(cluster)
        cluster.freeze(leader)
        await asyncio.sleep(10)
        await request_shutdown(cluster)
        await asyncio.sleep(120)
        assert set(cluster.processes) - set(cluster.ended_by_themselves()) == {leader}
        ended = record_of(cluster)
        cluster.thaw(leader, contact_after=1)
        with pytest.raises(StokerError):
            await old.shut_down_cluster(ApplicationStatus.FAILED)
        await wait_until_all_have_ended(cluster, within=60)
        assert record_of(cluster) == ended
        await check_after_restart(cluster, plain, endless)

    simulate(tmp_path, scenario)


def test_a_previous_leader_cannot_shut_the_cluster_down(tmp_path: Path) -> None:
    """The dispatcher of the previous leader has ended and answers no calls (RUN-06)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        old = await dispatcher_of(cluster)
        leader = leader_of(cluster)
        cluster.coordination.expire(cluster.processes[leader].session)
        await asyncio.sleep(5)
        with pytest.raises(RecipientUnreachable):
            await old.shut_down_cluster(ApplicationStatus.SUCCEEDED)
        assert record_of(cluster) is None
        await asyncio.sleep(60)
        assert cluster.leader() not in (None, leader)

    simulate(tmp_path, scenario)


def test_a_shutdown_that_no_leader_survived_is_forgotten_by_a_much_later_start(
    tmp_path: Path,
) -> None:
    """This also holds if a leader dies while it forgets the shutdown."""

    async def scenario(cluster: SimulatedCluster) -> None:
        endless = await cluster.submit(
            job(cluster, seconds=FOREVER, streaming=True, restart=MANY_RESTARTS)
        )
        await asyncio.sleep(3)
        names = sorted(cluster.processes)
        for name in names:
            await cluster.kill(name)
        session = cluster.coordination.session()
        record = ShutdownRecord(
            nonce="n", status=ApplicationStatus.SUCCEEDED, at=cluster.wall_clock()
        )
        await session.commit([Create(keys.SHUTDOWN, encode(record))])
        await session.close()
        await asyncio.sleep(3600)
        for name in names:
            cluster.start(name)
        for name in ("shutdown.before-forgetting", "shutdown.after-forgetting"):
            killer = ProcessKiller(cluster)
            with armed(name, killer.reached):
                dead = await killer.wait_for_death()
            cluster.start(dead.name)
        assert await cluster.status(endless) is not JobStatus.CANCELED
        await asyncio.sleep(60)
        assert record_of(cluster) is None
        assert cluster.ended_by_themselves() == []
        await cluster.cancel(endless)
        await cluster.wait_for_end(endless)

    simulate(tmp_path, scenario)


def test_an_unreadable_shutdown_record_ends_no_process(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        session = cluster.coordination.session()
        await session.commit([Create(keys.SHUTDOWN, b"\x00")])
        leader = cluster.leader() or (await cluster._dispatcher.wait_for_leader()).process
        await cluster.kill(str(leader))
        await session.commit([Put(keys.SHUTDOWN, b"{}")])
        assert await cluster.wait_for_end(await cluster.submit(job(cluster))) is JobStatus.FINISHED
        assert cluster.ended_by_themselves() == []
        await request_shutdown(cluster)
        await wait_until_all_have_ended(cluster)
        await restart_cluster(cluster)
        await session.close()

    simulate(tmp_path, scenario)


def test_an_unavailable_storage_does_not_hold_up_a_shutdown_for_ever(tmp_path: Path) -> None:
    """Jobs without a recorded end stay cancelled on record and end at the next start."""

    async def scenario(cluster: SimulatedCluster) -> None:
        endless = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        await asyncio.sleep(3)
        await request_shutdown(cluster)
        leader = await kill_leader(cluster)
        cluster.storage.go_away()
        await wait_until_all_have_ended(cluster, within=600)
        cluster.storage.come_back()
        cluster.start(leader)
        await restart_cluster(cluster)
        assert await cluster.wait_for_end(endless) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


class ShutdownFaultInjector(FaultInjector):
    """Restarts a dead process unless the shutdown is over."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self.faults = (
            self.kill,
            self.kill,
            self.stop,
            self.cut_off_one_process,
            self.suspend_coordinator,
            self.freeze,
            self.slow_storage,
            self.slow_coordinator,
            self.slow_network,
            self.lossy_network,
        )

    def is_over(self) -> bool:
        record = record_of(self.cluster)
        return record is not None and record.stage is ShutdownStage.OVER

    async def inject(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            await self.pause(4)
            if self.is_over():
                return
            await self.random.choice(self.faults)()

    def any_process(self) -> str:
        ended = self.cluster.ended_by_themselves()
        return self.random.choice(sorted(set(self.cluster.processes) - set(ended)))

    async def restart_ended_processes(self) -> None:
        if not self.is_over():
            await super().restart_ended_processes()

    async def kill(self) -> None:
        name = self.any_process()
        await self.cluster.kill(name)
        await self.pause(20)
        self.start_unless_over(name)

    async def stop(self) -> None:
        name = self.any_process()
        await self.cluster.stop(name)
        await self.pause(20)
        self.start_unless_over(name)

    def start_unless_over(self, name: str) -> None:
        if not self.is_over():
            self.cluster.start(name)


@pytest.mark.parametrize("seed", [*SEEDS][: max(20, len(SEEDS) // 4)])
def test_random_faults_do_not_keep_a_cluster_from_shutting_down(tmp_path: Path, seed: int) -> None:
    """All processes end, and no job runs again after a restart (ENTRY-04)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        names = sorted(cluster.processes)
        jobs = [
            await cluster.submit(
                job(
                    cluster,
                    seconds=cluster.random.choice([1, 20, FOREVER]),
                    streaming=cluster.random.random() < 0.5,
                    cancel_seconds=cluster.random.choice([0, 5]),
                    restart=MANY_RESTARTS,
                )
            )
            for _ in range(cluster.random.randint(0, 4))
        ]
        await asyncio.sleep(cluster.random.uniform(0, 5))
        await request_shutdown(cluster)
        await ShutdownFaultInjector(cluster).inject()
        await wait_until_all_have_ended(cluster, within=900)
        attempts = len(cluster.history.attempts)
        for name in set(names) - set(cluster.processes):
            cluster.start(name)
        await restart_cluster(cluster)
        for job_id in jobs:
            assert (await cluster.wait_for_end(job_id)).globally_terminal
        assert len(cluster.history.attempts) == attempts
        await asyncio.sleep(300)
        assert cluster.ended_by_themselves() == []

    simulate(tmp_path, scenario, seed=seed)
