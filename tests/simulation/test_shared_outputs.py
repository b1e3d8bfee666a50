"""Streams that want to write one output: only one of them runs at any time.

Spark's file sink would take the batches of the second for those of the first, and drop their rows.
"""

import asyncio
from pathlib import Path

import msgspec
import pytest

from simulation.faults import fail_over
from simulation.scenarios import dispatcher_of, graph_path, simulate, stream, wait_until_running
from stoker.core.errors import OutputInUse
from stoker.core.graph import FormatWrite, JobGraph, Sink
from stoker.core.states import JobStatus
from stoker.testing.simulated_cluster import SimulatedCluster


def stream_into(cluster: SimulatedCluster, path: str) -> JobGraph:
    graph = stream(cluster)
    source = graph.vertices[0]
    sink = Sink(
        name="out",
        input=source.name,
        write=FormatWrite(format="parquet", path=path),
        trigger="1 second",
    )
    return msgspec.structs.replace(graph, vertices=(source, sink))


@pytest.mark.parametrize("seed", range(5))
def test_of_two_simultaneous_submissions_into_one_output_one_is_accepted(
    tmp_path: Path, seed: int
) -> None:
    """The second is checked before the first is on record."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graphs = [stream_into(cluster, "/out"), stream_into(cluster, "/out/")]
        dispatcher = await dispatcher_of(cluster)
        answers = await asyncio.gather(
            *(dispatcher.submit_job(graph) for graph in graphs), return_exceptions=True
        )
        refusals = [answer for answer in answers if isinstance(answer, BaseException)]
        assert [type(refusal) for refusal in refusals] == [OutputInUse]
        assert len(await cluster.jobs()) == 1
        [accepted] = [
            graph for graph, answer in zip(graphs, answers, strict=True) if answer not in refusals
        ]
        await cluster.cancel(accepted.job_id)
        assert await cluster.wait_for_end(accepted.job_id) is JobStatus.CANCELED
        [refused] = [graph for graph in graphs if graph is not accepted]
        assert not (await dispatcher.submit_job(refused)).repeated
        await cluster.cancel(refused.job_id)
        await cluster.wait_for_end(refused.job_id)

    simulate(tmp_path, scenario, seed=seed)


def test_a_new_leader_knows_the_outputs_of_the_jobs_that_it_recovers(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first = await cluster.submit(stream_into(cluster, "/out"))
        await wait_until_running(cluster, first)
        await fail_over(cluster)
        dispatcher = await dispatcher_of(cluster)
        with pytest.raises(OutputInUse):
            await dispatcher.submit_job(stream_into(cluster, "/out"))
        await cluster.cancel(first)
        await cluster.wait_for_end(first)

    simulate(tmp_path, scenario)


def test_a_stream_that_comes_back_from_quarantine_waits_for_the_one_in_its_output(
    tmp_path: Path,
) -> None:
    """While its graph was unreadable, nobody knew that the output was its own."""

    async def scenario(cluster: SimulatedCluster) -> None:
        first = await cluster.submit(stream_into(cluster, "/out"))
        await wait_until_running(cluster, first)
        path = graph_path(cluster, first)
        content = cluster.storage.files[path]
        cluster.storage.files[path] = b"\x00 not a graph"
        await fail_over(cluster)
        second = await cluster.submit(stream_into(cluster, "/out"))
        cluster.storage.files[path] = content
        await asyncio.sleep(120)
        [held_back] = await cluster.ask(lambda dispatcher: dispatcher.quarantined())
        assert held_back.job_id == first
        assert f"({second[:12]}) has not ended and writes into /out" in held_back.reason
        await cluster.cancel(second)
        await cluster.wait_for_end(second)
        await asyncio.sleep(120)
        assert await cluster.ask(lambda dispatcher: dispatcher.quarantined()) == []
        assert await cluster.status(first) is JobStatus.RUNNING
        await cluster.cancel(first)
        await cluster.wait_for_end(first)

    simulate(tmp_path, scenario)
