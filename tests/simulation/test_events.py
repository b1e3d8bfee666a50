"""The event log of a whole cluster: whoever dies, it is in order and tells of every job.

Every simulation checks at its end that the log has no event twice or out of order, and that each
accepted job has its submission and its end there. Here segments are small, so that the storage
takes part, and the faults are those of the log itself.
"""

import asyncio
from pathlib import Path

import pytest

from simulation.faults import ProcessKiller, fail_over, leader_of
from simulation.random_faults import SEEDS, FaultInjector
from simulation.scenarios import (
    FOREVER,
    MANY_RESTARTS,
    job,
    simulate,
    stream,
    wait_until_running,
)
from stoker.core.failpoints import EVENT_FAILPOINTS, armed
from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.events import intake, layout, log
from stoker.events.event import EventKind, LoggedEvent
from stoker.events.options import EventOptions
from stoker.ha import keys
from stoker.ha.record import decode_record
from stoker.testing.simulated_cluster import SimulatedCluster

IN_SETTINGS = {name for name in EVENT_FAILPOINTS if "settings" in name}
"""Reached only when tokens or configuration change; a test of the module crashes there."""
IN_A_LOG = sorted(EVENT_FAILPOINTS - IN_SETTINGS)


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "RECENT_BYTES", 1500)
    monkeypatch.setattr(log, "FORGET_SECONDS", 20.0)


def kinds_of(events: list[LoggedEvent], job_id: JobId) -> list[str]:
    return [event.kind for event in events if event.job == job_id]


def segments(cluster: SimulatedCluster) -> list[str]:
    return [path for path in cluster.storage.files if path.startswith(f"{keys.EVENTS_FOLDER}/")]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_faults_leave_the_log_in_order_and_complete(tmp_path: Path, seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async def submit_some() -> None:
            for _ in range(cluster.random.randint(3, 10)):
                await asyncio.sleep(cluster.random.uniform(0, 10))
                await cluster.submit(
                    job(cluster, seconds=cluster.random.choice([0.1, 5]), restart=MANY_RESTARTS)
                )

        await asyncio.gather(submit_some(), FaultInjector(cluster).inject())
        for job_id in list(cluster.history.acknowledged):
            assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario, seed=seed)


@pytest.mark.parametrize("hit", [1, 2, 3])
@pytest.mark.parametrize("name", IN_A_LOG)
def test_a_death_between_two_writes_of_the_log_loses_no_end_of_a_job(
    tmp_path: Path, name: str, hit: int
) -> None:
    deaths: list[str] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        killer = ProcessKiller(cluster, hit)

        async def restart_later() -> None:
            process = await killer.wait_for_death()
            deaths.append(process.name)
            await asyncio.sleep(8)
            cluster.start(process.name)

        restarting = asyncio.create_task(restart_later())
        with armed(name, killer.reached):
            for _ in range(6):
                job_id = await cluster.submit(job(cluster, restart=MANY_RESTARTS))
                assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED
                await asyncio.sleep(15)
        restarting.cancel()
        cluster.history.acknowledged.clear()
        events = await cluster.events()
        assert kinds_of(events, job_id)[-1] == "job-finished"
        # Orphans of the dead leader are removed too, once they are old enough.
        await asyncio.sleep(900)
        assert set(segments(cluster)) == await indexed(cluster)

    simulate(tmp_path, scenario, events=EventOptions(max_count=12))
    assert deaths or hit > 1, f"no process reached {name}"


async def indexed(cluster: SimulatedCluster) -> set[str]:
    """Paths of the segments to which the index points."""
    found = await cluster.coordination.session().read(keys.EVENT_INDEX)
    assert found is not None
    index = decode_record(found.value, layout.EventIndex, keys.EVENT_INDEX)
    return {segment.path for segment in index.segments}


def test_the_life_of_a_job_is_told_in_its_order(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        failing = await cluster.submit(job(cluster, fails=1, restart=MANY_RESTARTS))
        endless = await cluster.submit(stream(cluster))
        await cluster.wait_for_end(failing)
        await wait_until_running(cluster, endless)
        await cluster.cancel(endless)
        await cluster.wait_for_end(endless)
        await asyncio.sleep(5)
        events = await cluster.events()
        assert kinds_of(events, failing) == [
            "job-submitted",
            "job-started",
            "job-restarting",
            "job-finished",
        ]
        assert kinds_of(events, endless) == ["job-submitted", "job-started", "job-cancelled"]
        of_cluster = [event.kind for event in events if event.job is None]
        assert of_cluster.count(EventKind.LEADER_CHANGED) == 1
        assert of_cluster.count(EventKind.EXECUTOR_REGISTERED) == 3

    simulate(tmp_path, scenario)


def test_a_new_leader_tells_whom_it_follows_and_what_it_adopted(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        endless = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, endless)
        before = leader_of(cluster)
        await fail_over(cluster)
        await wait_until_running(cluster, endless)
        await cluster.cancel(endless)
        await cluster.wait_for_end(endless)
        await asyncio.sleep(5)
        events = await cluster.events()
        first, second = [each for each in events if each.kind == EventKind.LEADER_CHANGED]
        assert (first.data["previous"], second.data["previous"]) == (None, before)
        assert second.data["leader"] == leader_of(cluster) != before
        assert second.epoch == second.data["epoch"] == first.epoch + 1
        assert first.at <= int(str(second.data["noticed"])) <= int(str(second.data["led"]))
        assert kinds_of(events, endless) == [
            "job-submitted",
            "job-started",
            "job-taken-over",
            "job-cancelled",
        ]
        [recovered] = [each for each in events if each.kind == EventKind.LEADER_RECOVERED]
        assert recovered.data == {"jobs": 1, "adopted": 2, "restarted": 0}

    simulate(tmp_path, scenario)


def test_a_submission_whose_event_was_not_written_is_told_by_the_next_leader(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await asyncio.sleep(5)
        job_id = await cluster.submit(job(cluster, seconds=60))
        await fail_over(cluster)
        await cluster.wait_for_end(job_id)
        await asyncio.sleep(5)
        [submitted] = [
            event
            for event in await cluster.events()
            if event.job == job_id and event.kind == EventKind.JOB_SUBMITTED
        ]
        assert submitted.data == {"late": True}
        assert submitted.epoch == 1

    simulate(tmp_path, scenario)


def test_a_leader_that_is_stopped_writes_its_last_events(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await asyncio.sleep(5)
        job_id = await cluster.submit(job(cluster, seconds=60))
        stopped = leader_of(cluster)
        await cluster.stop(stopped)
        cluster.start(stopped)
        await cluster.wait_for_end(job_id)
        await asyncio.sleep(5)
        events = await cluster.events()
        [submitted] = [
            each for each in events if each.job == job_id and each.kind == EventKind.JOB_SUBMITTED
        ]
        assert submitted.epoch == 0
        assert "late" not in submitted.data

    simulate(tmp_path, scenario)


def test_a_frozen_leader_appends_nothing_behind_its_successor(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await asyncio.sleep(5)
        frozen = leader_of(cluster)
        job_id = await cluster.submit(job(cluster, seconds=FOREVER, restart=MANY_RESTARTS))
        await asyncio.sleep(0.05)
        # It has events that it could not write yet, and wakes up when another master leads.
        cluster.freeze(frozen)
        cluster.processes[frozen].session.is_trusted = True
        await asyncio.sleep(30)
        assert leader_of(cluster) != frozen
        cluster.thaw(frozen, contact_after=2)
        await asyncio.sleep(30)
        await cluster.cancel(job_id)
        await cluster.wait_for_end(job_id)
        await asyncio.sleep(5)
        epochs = [event.epoch for event in await cluster.events()]
        assert epochs == sorted(epochs)

    simulate(tmp_path, scenario)


def test_without_a_storage_events_are_dropped_and_told_and_jobs_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MOST_RECENT_BYTES", 3000)
    monkeypatch.setattr(intake, "MAX_WAITING", 5)
    monkeypatch.setattr(intake.EventIntake.__init__, "__kwdefaults__", {"max_waiting": 5})

    async def scenario(cluster: SimulatedCluster) -> None:
        endless = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, endless)
        cluster.storage.go_away()
        for _ in range(20):
            await cluster.kill("executor-2")
            await asyncio.sleep(12)
            cluster.start("executor-2")
            await asyncio.sleep(5)
        assert await cluster.status(endless) is JobStatus.RUNNING
        cluster.storage.come_back()
        await asyncio.sleep(30)
        await cluster.cancel(endless)
        await cluster.wait_for_end(endless)
        await asyncio.sleep(5)
        events = await cluster.events()
        [dropped] = [each for each in events if each.kind == EventKind.EVENTS_DROPPED]
        missing = events[-1].number - len(events)
        assert dropped.data["count"] == missing > 0

    simulate(tmp_path, scenario)
