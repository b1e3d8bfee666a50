"""`stoker.connect()` and `stoker.aio.connect()`: a cluster and its jobs as objects."""

import asyncio
import inspect
from pathlib import Path

import pytest

import stoker
import stoker.aio
from contract.rest_cluster import FAILED, FINISHED, NEW, RUNNING, Master, new_graph
from stoker.client.async_cluster import AsyncCluster, AsyncJob
from stoker.client.cluster import Cluster, Job
from stoker.client.job_source import files_of, load
from stoker.core.errors import CallTimedOut, InvalidInput, JobFailed
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus

NOTEBOOKS_ONLY = {"show"}


def surface(kind: type) -> dict[str, list[str]]:
    methods = inspect.getmembers(kind, inspect.isfunction)
    return {
        name: list(inspect.signature(method).parameters)
        for name, method in methods
        if not name.startswith("_") and name not in NOTEBOOKS_ONLY
    }


def test_both_kinds_have_the_same_surface() -> None:
    assert surface(Cluster) == surface(AsyncCluster)
    assert surface(Job) == surface(AsyncJob)


async def test_a_graph_is_submitted_and_followed() -> None:
    async with Master().serving() as url:
        cluster = stoker.connect(url)
        job = await asyncio.to_thread(cluster.submit, new_graph())
        assert job.id == NEW
        assert await asyncio.to_thread(cluster.job(FINISHED).wait) is JobStatus.FINISHED
        seen: list[JobDetails] = []
        await asyncio.to_thread(cluster.job(FAILED).wait, progress=seen.append)
        assert [details.status for details in seen] == [JobStatus.FAILED]


async def test_the_same_with_an_event_loop() -> None:
    async with Master().serving() as url, stoker.aio.connect(url) as cluster:
        job = await cluster.submit(new_graph())
        assert job.id == NEW
        assert await cluster.job(FINISHED).wait() is JobStatus.FINISHED
        assert {each.jid for each in await cluster.jobs()} >= {RUNNING, FAILED}


async def test_a_result_is_given_or_its_failure_raised() -> None:
    async with Master().serving() as url, stoker.aio.connect(url) as cluster:
        assert (await cluster.job(FINISHED).result()).status is JobStatus.FINISHED
        with pytest.raises(JobFailed, match="AnalysisException") as caught:
            await cluster.job(FAILED).result()
        assert caught.value.facts["job_id"] == FAILED
        with pytest.raises(JobFailed, match="AnalysisException"):
            await asyncio.to_thread(stoker.connect(url).job(FAILED).result)


async def test_waiting_has_an_end() -> None:
    async with Master().serving() as url:
        with pytest.raises(CallTimedOut, match="is still RUNNING"):
            await asyncio.to_thread(stoker.connect(url).job(RUNNING).wait, 0.2)
        async with stoker.aio.connect(url) as cluster:
            with pytest.raises(CallTimedOut, match="has not ended"):
                await cluster.job(RUNNING).wait(0.2)


async def test_a_notebook_shows_state_and_progress() -> None:
    async with Master().serving() as url:
        html = await asyncio.to_thread(stoker.connect(url).job(RUNNING)._repr_html_)
        assert "RUNNING" in html
        assert "<progress" in html
        html = await asyncio.to_thread(stoker.connect(url).job(FAILED)._repr_html_)
        assert "AnalysisException" in html


def test_a_pipeline_a_file_and_nothing_else_is_a_job(tmp_path: Path) -> None:
    cluster = stoker.connect("http://127.0.0.1:1")
    with pytest.raises(InvalidInput, match="a dict is no job"):
        cluster.submit({"name": "x"})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="nowhere"):
        cluster.submit(tmp_path / "nowhere.py")


async def test_a_pipeline_object_is_submitted() -> None:
    master = Master()
    pipeline = stoker.Pipeline("copy", parameters={"day": "today"})
    pipeline.source("numbers", format="json", path="in/")
    pipeline.sink("numbers", format="json", path="out/")
    async with master.serving() as url, stoker.aio.connect(url) as cluster:
        job = await cluster.submit(pipeline, params={"day": "2026-11-01"}, name="renamed")
        assert master.dispatcher.graphs[job.id].name == "renamed"


def test_any_script_is_a_job(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\n")
    loaded = load(script, {}, ("a", "b"), None, {})
    assert loaded.graph.name == "script"
    assert [path.name for path in files_of(loaded).values()] == ["script.py"]


def test_the_masters_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_MASTER", "http://elsewhere:1")
    monkeypatch.setenv("STOKER_CLIENT_TOKEN", "stk_a_b")
    client = stoker.connect().client
    assert str(client._masters) == "http://elsewhere:1"
    assert client._options.token == "stk_a_b"
