"""A newer release joins the cluster, takes over, and is replaced by the old one again.

Invariant under attack: jobs keep running, and either release reads the records of the other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from simulation.scenarios import job
from stoker.core.states import JobStatus
from stoker.ha.coordinator import Create, Op, Put, Versioned, Watch
from stoker.testing.process_view import ProcessCoordinator, ProcessStorage
from stoker.testing.simulated_cluster import SimulatedCluster
from stoker.testing.virtual_time import run_virtual

NEW_FIELD = "known_from_the_next_release_on"


def with_new_field(content: bytes) -> bytes:
    """A record as the next release would write it; other content is unchanged."""
    try:
        record = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return content
    if not isinstance(record, dict):
        return content
    return msgspec.json.encode({**record, NEW_FIELD: {"of": ["any", "shape"]}})


def without_new_field(content: bytes) -> bytes:
    """The record as the next release reads it."""
    try:
        record = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return content
    if not isinstance(record, dict) or NEW_FIELD not in record:
        return content
    del record[NEW_FIELD]
    return msgspec.json.encode(record)


class NewerCoordinator(ProcessCoordinator):
    async def read(self, key: str, *, watch: Watch | None = None) -> Versioned | None:
        found = await super().read(key, watch=watch)
        return None if found is None else replace(found, value=without_new_field(found.value))

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        return await super().commit(
            [
                replace(op, value=with_new_field(op.value)) if isinstance(op, Create | Put) else op
                for op in ops
            ]
        )


class NewerStorage(ProcessStorage):
    async def create(self, path: str, content: bytes) -> None:
        await super().create(path, with_new_field(content))

    async def write(self, path: str, content: bytes) -> None:
        await super().write(path, with_new_field(content))


class MixedCluster(SimulatedCluster):
    """A cluster in which some processes, by their names, run the next release."""

    def start_master(self, name: str) -> None:
        super().start_master(name)
        if "new" in name:
            process = self.processes[name]
            process.session.__class__ = NewerCoordinator
            process.storage.__class__ = NewerStorage


def test_jobs_keep_running_while_masters_are_upgraded_and_downgraded(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = MixedCluster(5, tmp_path)
        async with cluster.running(masters=1, executors=2):
            long = await cluster.submit(job(cluster, seconds=100, streaming=True))
            await asyncio.sleep(2)
            cluster.start_master("master-new")
            await asyncio.sleep(2)
            assert cluster.leader() == "master-0"
            await cluster.stop("master-0")
            await asyncio.sleep(5)
            assert cluster.leader() == "master-new"
            on_new_leader = await cluster.submit(job(cluster, seconds=60))
            short = await cluster.submit(job(cluster))
            assert await cluster.wait_for_end(short) is JobStatus.FINISHED
            records = cluster.coordination.tree().records.values()
            assert any(NEW_FIELD.encode() in record.value for record in records)
            assert any(NEW_FIELD.encode() in content for content in cluster.storage.files.values())
            cluster.start_master("master-0")
            await asyncio.sleep(2)
            await cluster.stop("master-new")
            await asyncio.sleep(5)
            assert cluster.leader() == "master-0", "a downgrade is possible"
            assert await cluster.ask(lambda dispatcher: dispatcher.quarantined()) == []
            for job_id in (long, on_new_leader):
                assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED
            assert len(await cluster.jobs()) == 3
            assert await cluster.broken_invariants() == []
        assert len(cluster.history.attempts) == 3, "nothing was interrupted"

    run_virtual(scenario, seed=5)
