"""`stoker.connect()` and `stoker.connect_async()`: a cluster and its jobs as objects."""

import asyncio
import inspect
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import stoker
from instant_savepoints import InstantSavepoints
from stoker.client.asynchronous import AsyncClient
from stoker.client.blocking import BlockingClient
from stoker.client.cluster import AsyncCluster, AsyncJob, Cluster, Job
from stoker.client.source import load, load_sql
from stoker.core.errors import CallTimedOut, InvalidInput, JobFailed, NotFound
from stoker.core.graph import SqlScript
from stoker.core.results import JobDetails
from stoker.core.states import ExecutionState, JobStatus
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import FAILED, FINISHED, NEW, RUNNING, job_details, new_graph


def surface(kind: type) -> dict[str, list[str]]:
    methods = inspect.getmembers(kind, inspect.isfunction)
    return {
        name: list(inspect.signature(method).parameters)
        for name, method in methods
        if not name.startswith("_")
    }


def test_both_kinds_of_clusters_and_jobs_have_the_same_methods() -> None:
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


async def test_a_graph_is_submitted_and_followed_with_the_async_client() -> None:
    async with Master().serving() as url, stoker.connect_async(url) as cluster:
        job = await cluster.submit(new_graph())
        assert job.id == NEW
        assert await cluster.job(FINISHED).wait() is JobStatus.FINISHED
        assert {each.jid for each in await cluster.jobs()} >= {RUNNING, FAILED}


async def test_jobs_are_found_by_name_with_both_clients() -> None:
    async with Master().serving() as url, stoker.connect_async(url) as cluster:
        name = (await cluster.job(RUNNING).details()).name
        blocking = stoker.connect(url)
        assert (await cluster.find(name)).id == RUNNING
        assert (await asyncio.to_thread(blocking.job, name)).id == RUNNING
        assert (await cluster.find(RUNNING[:9])).id == RUNNING
        with pytest.raises(InvalidInput, match=r"await cluster\.find\("):
            cluster.job(name)
        with pytest.raises(NotFound, match="no job is named 'nothing'"):
            await asyncio.to_thread(blocking.job, "nothing")


async def test_result_returns_the_details_or_raises_the_failure() -> None:
    async with Master().serving() as url, stoker.connect_async(url) as cluster:
        assert (await cluster.job(FINISHED).result()).status is JobStatus.FINISHED
        with pytest.raises(JobFailed, match="AnalysisException") as caught:
            await cluster.job(FAILED).result()
        assert caught.value.facts["job_id"] == FAILED
        with pytest.raises(JobFailed, match="AnalysisException"):
            await asyncio.to_thread(stoker.connect(url).job(FAILED).result)


async def test_wait_raises_after_its_timeout() -> None:
    async with Master().serving() as url:
        with pytest.raises(CallTimedOut, match="is still RUNNING"):
            await asyncio.to_thread(stoker.connect(url).job(RUNNING).wait, 0.2)
        async with stoker.connect_async(url) as cluster:
            with pytest.raises(CallTimedOut, match="is still RUNNING"):
                await cluster.job(RUNNING).wait(0.2)


async def test_a_notebook_shows_state_and_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch)
    master = Master()
    async with master.serving() as url:
        await asyncio.to_thread(stoker.connect(url).job(FAILED)._ipython_display_)
        assert "AnalysisException" in notebook.shown[0]
        await asyncio.to_thread(stoker.connect(url).job(RUNNING)._ipython_display_)
        assert "RUNNING" in notebook.shown[1]
        assert "<progress" in notebook.shown[1]
        master.dispatcher.set_status(RUNNING, JobStatus.FINISHED)
        while "FINISHED" not in notebook.shown[-1]:
            notebook.updated.clear()
            await asyncio.wait_for(notebook.updated.wait(), 30)
        await wait_for_thread("stoker-notebook-view")


async def wait_for_thread(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            await asyncio.to_thread(thread.join, 30)


def test_handles_and_results_are_short_texts() -> None:
    cluster = stoker.connect("http://one:1,http://two:2")
    assert repr(cluster) == "<stoker cluster http://one:1,http://two:2>"
    assert repr(cluster.job(FINISHED)) == f"<stoker job {FINISHED[:12]}>"
    details = job_details(FINISHED, JobStatus.FINISHED, ExecutionState.FINISHED)
    assert repr(details) == f"<details of job {details.name} ({FINISHED[:12]}): FINISHED>"


async def test_the_rows_of_a_job_are_a_list_a_table_and_a_data_frame() -> None:
    async with Master().serving() as url, stoker.connect_async(url) as cluster:
        job = cluster.job(FINISHED)
        assert [row["name"] for row in await job.rows()] == ["a", None, "c"]
        assert (await job.to_arrow()).column("id").to_pylist() == [1, 2, 3]
        frame = await asyncio.to_thread(stoker.connect(url).job(FINISHED).to_pandas)
        assert frame["id"].tolist() == [1, 2, 3]
        with pytest.raises(JobFailed, match="AnalysisException"):
            await cluster.job(FAILED).rows()


class Notebook:
    """A stand-in for IPython that records what a notebook displays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[str] = []
        self.updated = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        module = ModuleType("IPython.display")
        module.display = self.display  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
        monkeypatch.setitem(sys.modules, "IPython.display", module)

    def display(self, picture: Any, *, display_id: bool) -> "Notebook":
        assert display_id
        self.shown.append(picture._repr_html_())
        return self

    def update(self, picture: Any) -> None:
        self.shown.append(picture._repr_html_())
        # The blocking client runs in another thread.
        self._loop.call_soon_threadsafe(self.updated.set)


@pytest.mark.parametrize("kind", ["blocking", "async"])
async def test_a_widget_follows_a_job_until_its_end(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = Notebook(monkeypatch)
    master = Master()
    async with master.serving() as url, stoker.connect_async(url) as cluster:
        if kind == "async":
            showing = asyncio.create_task(cluster.job(RUNNING).show())
        else:
            following = stoker.connect(url).job(RUNNING).show
            showing = asyncio.create_task(asyncio.to_thread(following))
        await asyncio.wait_for(notebook.updated.wait(), 30)
        master.dispatcher.set_status(RUNNING, JobStatus.FINISHED)
        assert await asyncio.wait_for(showing, 30) is JobStatus.FINISHED
    assert "RUNNING" in notebook.shown[0]
    assert "FINISHED" in notebook.shown[-1]


async def test_a_job_takes_a_savepoint_and_is_stopped() -> None:
    dispatcher = InstantSavepoints()
    async with Master(dispatcher=dispatcher).serving() as url, stoker.connect_async(url) as cluster:
        job = stoker.connect(url).job(RUNNING)
        assert await cluster.job(RUNNING).savepoint("/saved") == "/saved/one"
        assert await cluster.job(RUNNING).stop(limit_seconds=3) == "/saved/one"
        assert await asyncio.to_thread(job.savepoint) == "/saved/one"
        assert await asyncio.to_thread(job.stop, "/saved") == "/saved/one"
    assert [(each.stop, each.directory, each.limit_seconds) for each in dispatcher.requests] == [
        (False, "/saved", None),
        (True, None, 3.0),
        (False, None, None),
        (True, "/saved", None),
    ]


async def test_sql_text_is_submitted_without_a_file() -> None:
    master = Master()
    script = "CREATE OR REPLACE TEMP VIEW v AS SELECT 1 AS x; INSERT INTO t SELECT x FROM v"
    graph = load_sql(
        script, default_name="numbers", configuration={"spark.sql.ansi.enabled": "true"}
    ).graph
    (vertex,) = graph.vertices
    assert isinstance(vertex, SqlScript)
    assert len(vertex.statements) == 2
    assert (graph.name, graph.configuration["spark.sql.ansi.enabled"]) == ("numbers", "true")
    async with master.serving() as url, stoker.connect_async(url) as cluster:
        job = await cluster.sql(script, name="numbers")
        again = await asyncio.to_thread(stoker.connect(url).sql, script)
        assert {master.dispatcher.graphs[each.id].name for each in (job, again)} == {
            "numbers",
            "sql",
        }
        with pytest.raises(InvalidInput, match="no statement"):
            await cluster.sql("  -- nothing")


def test_every_name_of_the_client_is_typed() -> None:
    """The package has the marker file py.typed, which type checkers need."""
    assert (Path(stoker.__file__).parent / "py.typed").is_file()
    for kind in (Cluster, Job, AsyncCluster, AsyncJob, BlockingClient, AsyncClient):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if name.startswith("_"):
                continue
            found = inspect.signature(method)
            wanted = [each for each in found.parameters if each != "self"]
            assert found.return_annotation is not inspect.Signature.empty, (kind, name)
            untyped = [
                each
                for each in wanted
                if found.parameters[each].annotation is inspect.Parameter.empty
            ]
            assert untyped == [], (kind, name)


def test_submit_refuses_a_dict_and_a_missing_file(tmp_path: Path) -> None:
    cluster = stoker.connect("http://127.0.0.1:1")
    with pytest.raises(InvalidInput, match="a dict is not a job"):
        cluster.submit({"name": "x"})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="nowhere"):
        cluster.submit(tmp_path / "nowhere.py")


async def test_a_pipeline_object_is_submitted() -> None:
    master = Master()
    pipeline = stoker.Pipeline("copy", parameters={"day": "today"})
    pipeline.source("numbers", format="json", path="in/")
    pipeline.sink("numbers", format="json", path="out/")
    async with master.serving() as url, stoker.connect_async(url) as cluster:
        job = await cluster.submit(pipeline, params={"day": "2026-11-01"}, name="renamed")
        assert master.dispatcher.graphs[job.id].name == "renamed"


def test_any_python_script_is_loaded_as_a_job(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\n")
    loaded = load(script, arguments=("a", "b"))
    assert loaded.graph.name == "script"
    assert [path.name for path in loaded.files_by_hash.values()] == ["script.py"]


async def test_arguments_of_submit_override_the_settings_of_the_job() -> None:
    master = Master()
    async with master.serving() as url, stoker.connect_async(url) as cluster:
        job = await cluster.submit(new_graph(), queue="nightly", priority=7)
        graph = master.dispatcher.graphs[job.id]
        assert (graph.queue, graph.priority) == ("nightly", 7)
        job = await cluster.sql("SELECT 1", resources={"cores": 2})
        assert master.dispatcher.graphs[job.id].profile.cores == 2
    handle = stoker.connect("http://nobody:1")
    with pytest.raises(InvalidInput, match="not the name of a queue"):
        handle.sql("SELECT 1", queue="two words")
    with pytest.raises(TypeError, match="queues"):
        handle.submit(new_graph(), queues="nightly")  # type: ignore[call-arg]


def test_the_masters_and_the_token_are_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STOKER_MASTER", "http://elsewhere:1")
    monkeypatch.setenv("STOKER_CLIENT_TOKEN", "stk_a_b")
    client = stoker.connect().client
    assert str(client._masters) == "http://elsewhere:1"
    assert client._options.token == "stk_a_b"
