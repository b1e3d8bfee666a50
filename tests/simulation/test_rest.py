"""The REST API of a simulated cluster: real parts, a fake engine, virtual time.

Claim under attack: every answer has the fields and types of Flink's answers.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec

from contract import flink_facts
from simulation.scenarios import FOREVER, dispatcher_of, job, simulate, wait_until_running
from stoker.core.ids import Ids, JobId, vertex_hex_id
from stoker.core.states import JobStatus
from stoker.gateways.inspection import InspectionGateway
from stoker.metrics.registry import MetricRegistry
from stoker.processes.inspection.endpoint import Inspection, inspection_at
from stoker.rest.app import build_app
from stoker.rest.flink.operations_table import OPERATIONS, Support
from stoker.rest.options import RestOptions
from stoker.rest.programs.store import ProgramStore
from stoker.rest.services import RestServices
from stoker.storage.memory import MemoryStorage
from stoker.testing.simulated_cluster import SimulatedCluster


class NoBlobs:
    async def put(self, job_id: JobId, sha256: str, size: int, local_path: Path) -> None:
        raise AssertionError("nothing with files is submitted here")

    async def delete_job(self, job_id: JobId) -> None:
        return


def client_of(
    cluster: SimulatedCluster, inspection: InspectionGateway | None = None
) -> httpx.AsyncClient:
    async def process_at(address: str) -> InspectionGateway:
        assert inspection is not None
        return inspection

    services = RestServices(
        dispatcher=partial(dispatcher_of, cluster),
        blobs=NoBlobs(),  # type: ignore[arg-type]
        leads=lambda: True,
        leader_url=lambda: "http://127.0.0.1:8081",
        forwarding_url=lambda: None,
        options=RestOptions(bind_port="0"),
        version="0",
        clock=cluster.wall_clock,
        ids=Ids(cluster.random),
        configuration={"rest.bind-port": "0"},
        inspection=inspection,
        process_at=process_at,
        programs=ProgramStore(MemoryStorage(cluster.wall_clock), Ids(cluster.random)),
    )
    transport = httpx.ASGITransport(build_app(services))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081")


@asynccontextmanager
async def inspecting_client_of(cluster: SimulatedCluster) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a REST server that can show logs and thread dumps of processes."""
    rpc = cluster.network.service("inspected")
    try:
        async with (
            rpc.running(Inspection(None, MetricRegistry())) as address,
            client_of(cluster, await inspection_at(rpc, address)) as http,
        ):
            yield http
    finally:
        await rpc.close()


def test_every_answer_about_real_jobs_has_the_fields_and_types_of_flink(tmp_path: Path) -> None:
    kinds = {(each.method, each.path): each.kind for each in OPERATIONS}
    unfit = ("{triggerid}", "{checkpointid}", "{jarid}", "{rescaleuuid}", "environment")
    operations = [
        each
        for each in flink_facts.read_table()
        if each.method == "GET"
        and kinds[each.method, each.path] is not Support.OFF
        and not any(name in each.path for name in unfit)
    ]

    async def scenario(cluster: SimulatedCluster) -> None:
        stream = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        finished = await cluster.submit(job(cluster, sinks=2))
        failed = await cluster.submit(job(cluster, fails=9))
        cancelled = await cluster.submit(job(cluster, seconds=FOREVER))
        assert await cluster.wait_for_end(finished) is JobStatus.FINISHED
        assert await cluster.wait_for_end(failed) is JobStatus.FAILED
        await cluster.cancel(cancelled)
        assert await cluster.wait_for_end(cancelled) is JobStatus.CANCELED
        async with inspecting_client_of(cluster) as http:
            for operation in operations:
                for each in (stream, finished, failed, cancelled):
                    await check(http, operation, each, streams=each == stream)
        await cluster.cancel(stream)
        assert await cluster.wait_for_end(stream) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


async def check(
    http: httpx.AsyncClient, operation: flink_facts.Operation, job_id: JobId, *, streams: bool
) -> None:
    values = {
        "jobid": job_id,
        "applicationid": job_id,
        "vertexid": vertex_hex_id(job_id, "numbers"),
        "subtaskindex": "0",
        "attempt": "0",
        "taskmanagerid": "executor-0",
    }
    path = operation.path.format_map(values)
    answer = await http.get(path)
    if "checkpoints" in path and not streams:
        assert answer.status_code == 404, path
        return
    assert answer.status_code == operation.status, (path, answer.text)
    faults = flink_facts.differences(answer.json(), operation)
    assert flink_facts.unexcused(faults) == [], path


async def outcome(http: httpx.AsyncClient, place: str, trigger: str, facts: str) -> dict[str, Any]:
    """Wait for the outcome of an operation; compare every answer with the table."""
    operation = next(
        each for each in flink_facts.read_table() if (each.method, each.path) == ("GET", facts)
    )
    async with asyncio.timeout(900):
        while True:
            answer = (await http.get(f"{place}/{trigger}")).json()
            assert flink_facts.unexcused(flink_facts.differences(answer, operation)) == []
            if answer["status"]["id"] == "COMPLETED":
                return dict(answer["operation"])
            await asyncio.sleep(1)


def test_a_stream_is_stopped_over_rest_and_its_savepoint_is_listed_and_disposed_of(
    tmp_path: Path,
) -> None:
    """A stop is asynchronous, and a client polls it by its trigger id (OPS-01, OPS-08)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        await wait_until_running(cluster, job_id)
        async with inspecting_client_of(cluster) as http:
            await stop_and_dispose(http, job_id)
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED
        assert cluster.saved.files == {}

    simulate(tmp_path, scenario)


async def stop_and_dispose(http: httpx.AsyncClient, job_id: JobId) -> None:
    job_path = f"/jobs/{job_id}"
    body = {"targetDirectory": "/saved", "triggerId": "7" * 32}
    for _ in range(2):
        begun = await http.post(f"{job_path}/stop", json=body)
        assert (begun.status_code, begun.json()) == (202, {"request-id": "7" * 32})
    facts = "/jobs/{jobid}/savepoints/{triggerid}"
    made = await outcome(http, f"{job_path}/savepoints", "7" * 32, facts)
    statistics = (await http.get(f"{job_path}/checkpoints")).json()
    shown = statistics["latest"]["savepoint"]
    assert shown["external_path"] == made["location"]
    assert shown["checkpoint_type"] == "SYNC_SAVEPOINT"
    assert statistics["counts"]["completed"] == 1
    details = await http.get(f"{job_path}/checkpoints/details/{shown['id']}")
    assert details.json()["tasks"].keys() == {
        vertex_hex_id(job_id, name) for name in ("numbers", "sink-0")
    }
    disposal = await http.post("/savepoint-disposal", json={"savepoint-path": made["location"]})
    facts = "/savepoint-disposal/{triggerid}"
    gone = await outcome(http, "/savepoint-disposal", disposal.json()["request-id"], facts)
    assert gone == {}


def test_events_report_a_job_from_its_start_to_its_end(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        async with inspecting_client_of(cluster) as http:
            job_id = await cluster.submit(job(cluster, seconds=3))
            answer = await http.get(f"/events?topics=job:{job_id}")
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [
            line.removeprefix("event: ")
            for line in answer.text.splitlines()
            if line.startswith("event: ")
        ]
        assert events[0] == "hello"
        assert events[-1] == "end"
        assert events.count("progress") >= 2
        assert '"state":"FINISHED"' in answer.text

    simulate(tmp_path, scenario)


def test_one_id_means_one_job_for_every_client(tmp_path: Path) -> None:
    """A repetition is accepted, another graph is refused, the job keeps running (DISP-02)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=30)
        other = msgspec.structs.replace(graph, name="another")
        async with client_of(cluster) as http:
            first, again, different = [
                await http.post("/jobs", files={"graph": ("graph.json", msgspec.json.encode(each))})
                for each in (graph, graph, other)
            ]
            shown = (await http.get(f"/jobs/{graph.job_id}")).json()["name"]
        assert (first.status_code, again.status_code, different.status_code) == (202, 202, 409)
        assert first.json()["jobId"] == again.json()["jobId"] == graph.job_id
        assert again.json()["repeated"]
        (reason,) = different.json()["errors"]
        assert graph.job_id in reason
        assert "choose another id" in reason
        assert shown == graph.name
        assert await cluster.wait_for_end(graph.job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario)
