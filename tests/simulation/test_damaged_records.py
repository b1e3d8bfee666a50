"""Every record and every file of every job is damaged, one after the other (RUN-12).

What there is to damage is read from the coordinator and the storage at that moment. One record or
file of each job is damaged while no master leads.

Invariants under attack: damage to one job keeps no leader from serving and harms no other job; and
a job that ran is not ended by damage, but continues with its attempts and its files when the damage
is repaired.
"""

import asyncio
import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from simulation.faults import ProcessKiller, deny_reads, kill_leader
from simulation.scenarios import (
    FOREVER,
    MANY_RESTARTS,
    SAVEPOINT_DIRECTORY,
    STOP,
    job,
    simulate,
    stream,
    wait_until_running,
)
from simulation.test_replacements import trigger_replacement, upgrade, wait_until_over
from simulation.test_savepoints import take_savepoint
from stoker.core.checkpoints import SavepointRequest
from stoker.core.errors import JobNotFound, JobQuarantined, StokerError
from stoker.core.failpoints import armed
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.ha import keys
from stoker.ha.transaction import Record
from stoker.jobmaster.savepoints.records import savepoints_record_path, stop_record_path
from stoker.savepoints.restore import restore_record_path
from stoker.storage.memory import MemoryStorage
from stoker.testing.history import AttemptSpan
from stoker.testing.simulated_cluster import SimulatedCluster
from unit.savepoints.checkpoint_files import JOB, FakeQuery

Damage = Callable[[bytes], bytes | None]

UNREADABLE = "not readable for a while"
DAMAGES: dict[str, Damage] = {
    "another file": lambda _: b"\x00 garbage",
    "bytes that are not text": lambda content: re.sub(rb':"[^"]', b':"\xff', content),
    "cut off": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "missing": lambda _: None,
}
NEEDED_TO_RUN = {
    "attempts/*/sink-0",
    "attempts/*/sink-1",
    "jobs/*",
    "jobs/*/graph/*.json",
    "jobs/*/outcomes/*/*.json",
    "jobs/*/restored.json",
}
"""Records and files without which a new leader does not run a job, * for each id."""
DAMAGED_SECONDS = 80
"""More than a lease with its margin."""
RETRY_SECONDS = 65
"""In that time jobs in quarantine are retried, and job masters are restarted."""


async def restored_stream(cluster: SimulatedCluster, origin: JobId) -> JobGraph:
    """A job that starts from a savepoint of `origin`, which has the checkpoint of one batch."""
    scratch = MemoryStorage()
    FakeQuery(scratch, "sink-0", partitions=1).run(1)
    for path, file in scratch.files.items():
        await cluster.storage.write(path.replace(JOB, origin), file)
    request = SavepointRequest(directory=SAVEPOINT_DIRECTORY, limit_seconds=20)
    status = await take_savepoint(cluster, origin, request)
    assert status.taken is not None
    return msgspec.structs.replace(stream(cluster), restore=Restore(path=status.taken.path))


class Victims:
    """Jobs in all situations, and the places where something of them is stored."""

    def __init__(self, cluster: SimulatedCluster, denied: set[str]) -> None:
        self.cluster = cluster
        self.running: list[JobId] = []
        """Streams that never end: one that failed before, one from a savepoint, an upgraded one."""
        self.attempts: list[AttemptSpan] = []
        """Attempts of the running jobs when the damage happens."""
        self.damaged: dict[JobId, str] = {}
        self.files: set[str] = set()
        self._denied = denied
        self._forgotten: set[JobId] = set()
        """Jobs of which no leader can know all attempts: a launch intent, or the job, is gone."""
        self._sound_files: dict[str, bytes] = {}
        self._sound_records: dict[str, Record] = {}

    async def prepare(self) -> None:
        cluster = self.cluster
        failed = await cluster.submit(stream(cluster, fails=1, **{"fake.fail-seconds": "1"}))
        self.replaced = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, self.replaced)
        restored = await cluster.submit(await restored_stream(cluster, self.replaced))
        upgraded = stream(cluster)
        await trigger_replacement(cluster, upgrade(self.replaced, upgraded))
        await wait_until_over(cluster, self.replaced)
        self.running = [failed, restored, upgraded.job_id]
        self.ended = await cluster.submit(job(cluster))
        assert await cluster.wait_for_end(self.ended) is JobStatus.FINISHED
        self.cancelled = await cluster.submit(
            job(cluster, seconds=FOREVER, streaming=True, cancel_seconds=60)
        )
        self.stopping = await cluster.submit(stream(cluster))
        for job_id in (*self.running, self.cancelled, self.stopping):
            await wait_until_running(cluster, job_id)
        await cluster.cancel(self.cancelled)
        await self._stop_until_the_leader_dies()
        spans = self.cluster.history.attempts
        self.attempts = [span for span in spans if span.job_id in self.running and not span.ended]
        self.files = {path for path in cluster.storage.files if self._is_of(path, self.running)}

    async def _stop_until_the_leader_dies(self) -> None:
        """The savepoint of the stop is complete and on record, and the job has not ended."""
        killer = ProcessKiller(self.cluster)
        with armed("stop.after-record", killer.reached):
            taking = asyncio.create_task(take_savepoint(self.cluster, self.stopping, STOP))
            await killer.wait_for_death()
        taking.cancel()
        with contextlib.suppress(asyncio.CancelledError, StokerError):
            await taking

    def _launch_keys(self, job_id: JobId) -> list[str]:
        launches = keys.attempts(job_id)
        records = self.cluster.coordination.all_keys()
        return [keys.job(job_id), *(key for key in records if key.startswith(f"{launches}/"))]

    def _is_of(self, place: str, jobs: Iterable[JobId]) -> bool:
        return any(job_id in place for job_id in jobs)

    def places(self, job_id: JobId) -> list[str]:
        """Keys at the coordinator, then paths in the storage."""
        kept = [*self.cluster.coordination.all_keys(), *sorted(self.cluster.storage.files)]
        return [place for place in kept if job_id in place]

    def damage(self, number: int, kind: str) -> int:
        """Damage the place with this number of each job; return the largest number of places."""
        jobs = [*self.running, self.replaced, self.ended, self.cancelled, self.stopping]
        places = {job_id: self.places(job_id) for job_id in jobs}
        for job_id, listed in places.items():
            if number < len(listed):
                place = self.damaged[job_id] = listed[number]
                if kind == "missing" and place in self._launch_keys(job_id):
                    self._forgotten.add(job_id)
                self._damage(place, kind)
        return max(len(listed) for listed in places.values())

    def _damage(self, place: str, kind: str) -> None:
        records, files = self.cluster.coordination.tree().records, self.cluster.storage.files
        if kind == UNREADABLE:
            self._denied.add(place)
        elif place in files:
            self._sound_files[place] = files.pop(place)
            content = DAMAGES[kind](self._sound_files[place])
            files.update({} if content is None else {place: content})
        else:
            self._sound_records[place] = sound = records.pop(place)
            content = DAMAGES[kind](sound.value)
            if content is not None:
                records[place] = dataclasses.replace(sound, value=content)

    def repair(self) -> None:
        """A record that was written again meanwhile is left as it is."""
        self._denied.clear()
        self.cluster.storage.files.update(self._sound_files)
        records = self.cluster.coordination.tree().records
        for key, sound in self._sound_records.items():
            if key not in records or records[key].created == sound.created:
                records[key] = sound

    def is_lost(self, job_id: JobId) -> bool:
        """Whether its record is gone from the coordinator: nothing says that it was accepted."""
        place = self.damaged.get(job_id)
        return place == keys.job(job_id) and place not in self.cluster.coordination.all_keys()

    @property
    def has_damaged_result(self) -> bool:
        results = {keys.result(self.ended), keys.result(self.replaced)}
        return not results.isdisjoint(self.damaged.values())

    async def state(self, job_id: JobId) -> JobStatus | JobQuarantined | None:
        try:
            return await self.cluster.status(job_id)
        except JobQuarantined as quarantined:
            return quarantined
        except JobNotFound:
            return None

    async def check_while_damaged(self) -> list[str]:
        """The places of which the damage led to quarantine."""
        quarantined: list[str] = []
        for job_id in self.running:
            match await self.state(job_id):
                case JobQuarantined() as error:
                    assert self.damaged[job_id] in str(error)
                    quarantined.append(self.damaged[job_id])
                case None:
                    assert self.is_lost(job_id)
                case JobStatus.INITIALIZING:
                    # Its job master is started again and again, until it can read everything.
                    assert self.damaged[job_id] in self._denied
                case state:
                    assert state is JobStatus.RUNNING, self.damaged.get(job_id)
        gone = self.files - set(self.cluster.storage.files) - set(self._sound_files)
        assert not gone, "no file of a job that has not ended is deleted"
        self._check_attempts()
        return quarantined

    def _check_attempts(self) -> None:
        running = [span for span in self.cluster.history.attempts if span.job_id in self.running]
        for span in self.attempts:
            may_end = span.job_id in self._forgotten
            assert may_end or span.ended is None, self.damaged.get(span.job_id)
        for span in running:
            is_known = span in self.attempts or span.ended is not None
            assert is_known or span.job_id in self._forgotten, self.damaged.get(span.job_id)

    async def check_after_repair(self) -> None:
        """Every job continues by itself, with the same attempts, and can be ended."""
        await asyncio.sleep(RETRY_SECONDS)
        for job_id in self.running:
            assert await self.state(job_id) is JobStatus.RUNNING, self.damaged.get(job_id)
        self._check_attempts()
        for job_id in (*self.running, self.cancelled):
            await self.cluster.cancel(job_id)
            assert await self.cluster.wait_for_end(job_id) is JobStatus.CANCELED
        if not (await self.cluster.status(self.stopping)).globally_terminal:
            # The record of the stop is what was lost.
            await self.cluster.cancel(self.stopping)
        await self.cluster.wait_for_end(self.stopping)
        for job_id in (self.ended, self.replaced):
            assert await self.cluster.status(job_id) is JobStatus.FINISHED


def run_with_damage(
    folder: Path, number: int, kind: str, denied: set[str]
) -> tuple[int, list[str]]:
    """Return the number of places of a job, and the places whose damage led to quarantine."""
    totals: list[int] = []
    quarantined: list[str] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        good = await cluster.submit(job(cluster, seconds=200))
        victims = Victims(cluster, denied)
        await victims.prepare()
        totals.append(victims.damage(number, kind))
        await asyncio.sleep(DAMAGED_SECONDS)
        later = await cluster.submit(job(cluster))
        assert await cluster.wait_for_end(later) is JobStatus.FINISHED
        quarantined.extend(await victims.check_while_damaged())
        victims.repair()
        if kind == "missing" or victims.has_damaged_result:
            # Only a new leader reads all records.
            cluster.start_master("master-2")
            await kill_leader(cluster)
        await victims.check_after_repair()
        assert await cluster.wait_for_end(good) is JobStatus.FINISHED

    simulate(folder, scenario, executors=3, slots=5)
    return totals[0], quarantined


@pytest.mark.parametrize("kind", [*DAMAGES, UNREADABLE])
def test_damage_to_one_job_ends_neither_it_nor_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    denied = deny_reads(monkeypatch)
    number, total = 0, 1
    quarantined: set[str] = set()
    while number < total:
        total, places = run_with_damage(tmp_path / str(number), number, kind, denied)
        quarantined |= {re.sub(r"[0-9a-f]{32}", "*", place) for place in places}
        number += 1
    assert total > 10, "records, launch intents, graphs, outcomes, the start, checkpoints"
    if kind not in ("missing", UNREADABLE):
        assert quarantined >= NEEDED_TO_RUN


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


@pytest.mark.parametrize("content", [None, b'{"path": "\xff'])
def test_a_job_whose_savepoint_is_gone_continues_when_the_record_of_its_start_is_damaged(
    tmp_path: Path, content: bytes | None
) -> None:
    """It is not restored again: its own checkpoints are newer than the savepoint."""

    async def scenario(cluster: SimulatedCluster) -> None:
        origin = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, origin)
        restored = await cluster.submit(await restored_stream(cluster, origin))
        await wait_until_running(cluster, restored)
        cluster.saved.files.clear()
        path = restore_record_path(restored)
        sound = cluster.storage.files.pop(path)
        cluster.storage.files.update({} if content is None else {path: content})
        await kill_leader(cluster)
        await asyncio.sleep(DAMAGED_SECONDS)
        cluster.storage.files[path] = sound
        await asyncio.sleep(RETRY_SECONDS)
        for job_id in (origin, restored):
            assert await cluster.status(job_id) is JobStatus.RUNNING
            await cluster.cancel(job_id)
            assert await cluster.wait_for_end(job_id) is JobStatus.CANCELED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 4
