"""Seven kinds of damaged jobs at once, beside twenty good jobs (RUN-12).

Invariant under attack: jobs that cannot be loaded do not keep a leader from recovering the others.
"""

import asyncio
import hashlib
from pathlib import Path

import msgspec
import pytest

from simulation.faults import deny_reads, kill_leader
from simulation.scenarios import FOREVER, graph_path, job, simulate
from stoker.blob.keys import folder_of
from stoker.core.graph import Artifact, ArtifactKind, JobGraph
from stoker.core.states import JobStatus
from stoker.testing.simulated_cluster import SimulatedCluster

FILE = b"print('hello')"
HUGE = b"[" * (64 * 1024 * 1024)
EXECUTORS = 5


def with_file(cluster: SimulatedCluster, graph: JobGraph) -> tuple[JobGraph, str]:
    """A job with an uploaded file, and the path of the file."""
    digest = hashlib.sha256(FILE).hexdigest()
    path = f"{folder_of(graph.job_id)}/{digest}"
    cluster.storage.files[path] = FILE
    artifact = Artifact(name="hello.py", kind=ArtifactKind.FILE, size=len(FILE), sha256=digest)
    return msgspec.structs.replace(graph, artifacts=(artifact,)), path


def test_twenty_jobs_recover_beside_every_kind_of_damaged_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The damage: corrupt bytes, one damaged byte in a text, deleted content, a huge graph, the
    graph of another job, denied permission, and a missing file.
    """
    denied = deny_reads(monkeypatch)

    async def scenario(cluster: SimulatedCluster) -> None:
        good = [await cluster.submit(job(cluster, seconds=30)) for _ in range(20)]
        bad = [await cluster.submit(job(cluster, seconds=FOREVER)) for _ in range(6)]
        graph, file = with_file(cluster, job(cluster))
        without_file = await cluster.submit(graph)
        await asyncio.sleep(1)
        files = cluster.storage.files
        files[graph_path(cluster, bad[0])] = b"\x00 not a graph"
        del files[graph_path(cluster, bad[1])]
        files[graph_path(cluster, bad[2])] = HUGE
        denied.add(graph_path(cluster, bad[3]))
        damaged = graph_path(cluster, bad[4])
        files[damaged] = files[damaged].replace(b"simulated", b"simu\xffated")
        files[graph_path(cluster, bad[5])] = files[graph_path(cluster, good[0])]
        del files[file]
        await kill_leader(cluster)
        for each in good:
            assert await cluster.wait_for_end(each) is JobStatus.FINISHED
        assert await cluster.wait_for_end(without_file) is JobStatus.FAILED
        shown = await cluster.ask(lambda dispatcher: dispatcher.quarantined())
        assert {each.job_id for each in shown} == set(bad)
        denied.clear()
        for each in bad:
            await cluster.ask(lambda dispatcher, id=each: dispatcher.drop_quarantined(id))
            assert await cluster.wait_for_end(each) is JobStatus.FAILED

    cluster = simulate(tmp_path, scenario, executors=EXECUTORS)
    begun = [span.job_id for span in cluster.history.attempts]
    assert len(begun) == 20, "each good job ran once, and no other"
