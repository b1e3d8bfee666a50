"""Every record and every file of a job is damaged, one after the other (RUN-12).

Invariant under attack: damage to one job keeps no leader from serving and harms no other job.
"""

import asyncio
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from simulation.faults import kill_leader
from simulation.scenarios import FOREVER, MANY_RESTARTS, job, simulate
from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.jobmaster.savepoints.records import savepoints_record_path, stop_record_path
from stoker.testing.simulated_cluster import SimulatedCluster

Damage = Callable[[bytes], bytes]

DAMAGES: dict[str, Damage] = {
    "another file": lambda _: b"\x00 garbage",
    "bytes that are not text": lambda content: re.sub(rb':"[^"]', b':"\xff', content),
    "cut off": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
}


class Victims:
    """One running job, one ended job, and one that is being cancelled."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.jobs: list[JobId] = []

    async def prepare(self) -> None:
        cluster = self.cluster
        endless = job(cluster, seconds=FOREVER, streaming=True, restart=MANY_RESTARTS)
        slow = job(cluster, seconds=FOREVER, streaming=True, cancel_seconds=200)
        self.jobs = [await cluster.submit(each) for each in (endless, job(cluster), slow)]
        assert await cluster.wait_for_end(self.jobs[1]) is JobStatus.FINISHED
        await cluster.cancel(self.jobs[2])
        await asyncio.sleep(3)

    def places(self) -> list[str]:
        """All keys at the coordinator, then all paths in the storage."""
        kept = [*self.cluster.coordination.all_keys(), *sorted(self.cluster.storage.files)]
        return [place for place in kept if any(each in place for each in self.jobs)]

    def damage(self, place: str, damage: Damage) -> None:
        records, files = self.cluster.coordination.tree().records, self.cluster.storage.files
        sound = files[place] if place in files else records[place].value
        damaged = damage(sound)
        assert damaged != sound, place
        if place in files:
            files[place] = damaged
        else:
            records[place] = dataclasses.replace(records[place], value=damaged)

    async def end_sound_jobs(self, place: str) -> None:
        """End the sound jobs, and forget what clients were told about the damaged one.

        How that one ends depends on the damage. Its attempts stay in the history, since they must
        not overlap either.
        """
        endless, _, cancelled = self.jobs
        if endless not in place:
            await self.cluster.cancel(endless)
            assert await self.cluster.wait_for_end(endless) is JobStatus.CANCELED
        if cancelled not in place:
            assert await self.cluster.wait_for_end(cancelled) is JobStatus.CANCELED
        (damaged,) = (each for each in self.jobs if each in place)
        history = self.cluster.history
        for claims in (history.acknowledged, history.cancelled, history.ends):
            claims.pop(damaged, None)


def run_with_damage(folder: Path, number: int, damage: Damage) -> int:
    """Damage one record or file; return how many records and files there are."""
    places: list[str] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        good = await cluster.submit(job(cluster, seconds=60))
        victims = Victims(cluster)
        await victims.prepare()
        places.extend(victims.places())
        victims.damage(places[number], damage)
        await kill_leader(cluster)
        async with asyncio.timeout(300):
            assert await cluster.wait_for_end(good) is JobStatus.FINISHED
            later = await cluster.submit(job(cluster))
            assert await cluster.wait_for_end(later) is JobStatus.FINISHED
        await victims.end_sound_jobs(places[number])

    simulate(folder, scenario)
    return len(places)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_record_of_one_job_harms_no_other(tmp_path: Path, kind: str) -> None:
    number, total = 0, 1
    while number < total:
        total = run_with_damage(tmp_path / str(number), number, DAMAGES[kind])
        number += 1
    assert total > 8, "records, a cancellation, launch intents, graphs, a result and its details"


@pytest.mark.parametrize("path_of", [stop_record_path, savepoints_record_path])
def test_a_job_whose_own_record_is_damaged_goes_to_quarantine_with_the_reason(
    tmp_path: Path, path_of: Callable[[JobId], str]
) -> None:
    """The job master is not restarted over and over until the record becomes readable."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=FOREVER, streaming=True, restart=MANY_RESTARTS)
        job_id = await cluster.submit(graph)
        await asyncio.sleep(3)
        cluster.storage.files[path_of(job_id)] = b'{"path": "\xff'
        await kill_leader(cluster)
        await asyncio.sleep(30)
        (quarantined_job,) = await cluster.ask(lambda dispatcher: dispatcher.quarantined())
        assert quarantined_job.job_id == job_id
        assert f"{path_of(job_id)} cannot be understood" in quarantined_job.reason
        await cluster.ask(lambda dispatcher: dispatcher.drop_quarantined(job_id))
        assert await cluster.wait_for_end(job_id) is JobStatus.FAILED

    simulate(tmp_path, scenario)
