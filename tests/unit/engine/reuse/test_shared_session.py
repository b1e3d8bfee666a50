"""A session is shared until its task needs a dedicated one."""

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.proto import base_pb2, relations_pb2

from stoker.core.graph import FormatRead, FormatWrite, JobGraph, PythonFunction, Sink, Source
from stoker.core.ids import JobId
from stoker.core.regions import Region, regions_of
from stoker.engine.reuse import shared_session
from stoker.engine.reuse.isolation import Isolation
from stoker.engine.reuse.session_policy import DedicatedSession
from stoker.engine.reuse.shared_session import SharedSession
from stoker.engine.reuse.templates import dedicated_template
from stoker.osproc.process_tree import children_of

TEMPLATE = "0a1b2c3d-0a1b-4a1b-8a1b-0a1b2c3d4e5f"
SESSION = "11111111-0a1b-4a1b-8a1b-0a1b2c3d4e5f"
PLAIN = relations_pb2.Relation(range=relations_pb2.Range(end=10, step=1))
TABLE = relations_pb2.Relation(
    read=relations_pb2.Read(named_table=relations_pb2.Read.NamedTable(unparsed_identifier="t"))
)
WITH_CODE = relations_pb2.Relation(map_partitions=relations_pb2.MapPartitions())


class Stub:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(request: Any, **_named: Any) -> None:
            session = getattr(request, "session_id", "")
            self.calls.append(f"{name} {session}" if session != SESSION else name)

        return call


class ArtifactManager:
    """Calls the server through a reference of its own to the stub."""

    def __init__(self, stub: Stub) -> None:
        self._stub: Any = stub

    def add(self) -> None:
        self._stub.AddArtifacts(base_pb2.AddArtifactsRequest(session_id=SESSION))


class Client:
    """The parts of PySpark's client that the session touches."""

    class _Builder:
        userAgent = "test"

        def metadata(self) -> tuple[()]:
            return ()

    def __init__(self) -> None:
        self.stub = Stub()
        self._stub: Any = self.stub
        self._artifact_manager = ArtifactManager(self.stub)
        self._builder = self._Builder()
        self._session_id = SESSION
        self._user_id = "stoker"
        self._server_session_id: str | None = "seen"

    def send(self, name: str) -> None:
        getattr(self._stub, name)(base_pb2.ConfigRequest(session_id=SESSION))


class Frame:
    def __init__(self, root: relations_pb2.Relation, sends: str | None = None) -> None:
        self._root = root
        self._sends = sends
        self._plan = self

    def to_proto(self, client: Client) -> base_pb2.Plan:
        if self._sends is not None:
            client.send(self._sends)
        return base_pb2.Plan(root=self._root)


DEDICATED = ["ReleaseSession", f"CloneSession {dedicated_template(TEMPLATE)}"]
SETTINGS = ["Config"]


class SparkSession:
    def clearProgressHandlers(self) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class Task:
    graph: JobGraph
    region: Region
    python_path: tuple[str, ...] = ()


def task_of(source: Source, python_path: tuple[str, ...] = ()) -> Task:
    sink = Sink(name="out", input="in", write=FormatWrite(format="noop"))
    graph = JobGraph(job_id=JobId("1" * 32), name="job", vertices=(source, sink))
    return Task(graph=graph, region=regions_of(graph)[0], python_path=python_path)


FILES = Source(name="in", read=FormatRead(format="parquet", path="/in"))
CODE = Source(name="in", read=PythonFunction(name="f", payload=b"", parameters=()))
TASKS = {
    Isolation.SHARED: task_of(FILES),
    Isolation.UNDECIDED: task_of(CODE),
    Isolation.DEDICATED: task_of(FILES, python_path=("/lib",)),
}


@pytest.fixture(autouse=True)
def _isolate_from_other_tests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ignore child processes of other tests, and restore the client afterwards."""
    others = set(children_of(os.getpid()))
    monkeypatch.setattr(shared_session, "children_of", lambda pid: set(children_of(pid)) - others)
    made = SparkConnectClient.__init__
    yield
    SparkConnectClient.__init__ = made  # type: ignore[method-assign]


def test_files_that_the_code_adds_go_to_the_dedicated_session() -> None:
    session, client = session_for(Isolation.UNDECIDED)
    client._artifact_manager.add()
    assert client.stub.calls == [*SETTINGS, *DEDICATED, *SETTINGS, "AddArtifacts"]
    assert session.may_have_workers
    assert client._artifact_manager._stub is client.stub


def session_for(isolation: Isolation) -> tuple[SharedSession, Client]:
    client = Client()
    session = SharedSession(client, TEMPLATE)
    session.judge(TASKS[isolation])
    session.select(TASKS[isolation], lambda: client.send("Config"))
    return session, client


def test_settings_reach_a_new_dedicated_session_or_the_shared_one() -> None:
    for isolation, calls in (
        (Isolation.SHARED, SETTINGS),
        (Isolation.DEDICATED, [*DEDICATED, *SETTINGS]),
    ):
        session, client = session_for(isolation)
        session.before_action(Frame(WITH_CODE))
        client.send("ExecutePlan")
        assert client.stub.calls == [*calls, "ExecutePlan"]


@pytest.mark.parametrize(
    ("isolation", "plan", "may_have"),
    [
        (Isolation.SHARED, PLAIN, False),
        (Isolation.UNDECIDED, PLAIN, False),
        (Isolation.UNDECIDED, WITH_CODE, True),
        (Isolation.DEDICATED, PLAIN, True),
    ],
)
def test_only_a_dedicated_session_may_have_workers(
    isolation: Isolation, plan: relations_pb2.Relation, may_have: bool
) -> None:
    session, _ = session_for(isolation)
    session.before_action(Frame(plan))
    assert session.may_have_workers is may_have


def test_an_undecided_session_stays_shared_when_the_plan_is_harmless() -> None:
    session, client = session_for(Isolation.UNDECIDED)
    session.before_action(Frame(PLAIN))
    client.send("ExecutePlan")
    assert client.stub.calls == [*SETTINGS, "ExecutePlan"]


def test_an_undecided_session_becomes_dedicated_when_the_plan_has_code() -> None:
    session, client = session_for(Isolation.UNDECIDED)
    session.before_action(Frame(WITH_CODE))
    # The server would refuse requests that still name the previous session.
    assert client._server_session_id is None
    client.send("ExecutePlan")
    assert client.stub.calls == [*SETTINGS, *DEDICATED, *SETTINGS, "ExecutePlan"]


@pytest.mark.parametrize(
    "method",
    ["AddArtifacts", "AnalyzePlan", "ArtifactStatus", "CloneSession", "Config", "ExecutePlan"],
)
def test_the_first_call_of_the_code_moves_the_task_to_a_dedicated_session(method: str) -> None:
    session, client = session_for(Isolation.UNDECIDED)
    client.send(method)
    client.send(method)
    session.before_action(Frame(PLAIN))
    assert client.stub.calls == [*SETTINGS, *DEDICATED, *SETTINGS, method, method]


def test_a_call_made_while_building_the_plan_counts_too() -> None:
    session, client = session_for(Isolation.UNDECIDED)
    session.before_action(Frame(PLAIN, sends="AnalyzePlan"))
    client.send("ExecutePlan")
    assert client.stub.calls == [*SETTINGS, *DEDICATED, *SETTINGS, "AnalyzePlan", "ExecutePlan"]


def test_making_another_client_moves_the_task_to_a_dedicated_session_first() -> None:
    _, client = session_for(Isolation.UNDECIDED)
    with pytest.raises(TypeError):
        SparkConnectClient(no_such_argument=1)  # type: ignore[call-arg]
    assert client.stub.calls == [*SETTINGS, *DEDICATED, *SETTINGS]


def test_a_thread_or_process_left_by_the_code_makes_the_session_dedicated() -> None:
    over = threading.Event()
    session, client = session_for(Isolation.UNDECIDED)
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        session.before_action(Frame(PLAIN))
    finally:
        over.set()
        thread.join()
    assert client.stub.calls == [*SETTINGS, *DEDICATED, *SETTINGS]
    session, client = session_for(Isolation.UNDECIDED)
    with subprocess.Popen(["sleep", "60"]) as process:
        session.before_action(Frame(PLAIN))
        process.kill()
    assert client.stub.calls == [*SETTINGS, *DEDICATED, *SETTINGS]


def test_a_cancellation_is_not_a_call_of_the_code() -> None:
    _, client = session_for(Isolation.UNDECIDED)
    client.send("Interrupt")
    assert client.stub.calls == [*SETTINGS, "Interrupt"]


@pytest.mark.parametrize(("plan", "has"), [(PLAIN, False), (TABLE, True)])
def test_a_session_that_may_remember_a_table_is_not_reused(
    plan: relations_pb2.Relation, has: bool
) -> None:
    session, _ = session_for(Isolation.UNDECIDED)
    session.before_action(Frame(plan))
    assert not session.may_have_workers
    assert session.empty_session(SparkSession(), (), has_settings=False) is not has


def test_only_a_task_that_shared_its_session_leaves_the_process_clean() -> None:
    assert not SharedSession(Client(), TEMPLATE).leaves_process_clean
    assert session_for(Isolation.SHARED)[0].leaves_process_clean
    assert not session_for(Isolation.DEDICATED)[0].leaves_process_clean


def test_a_function_that_is_not_known_to_be_harmless_leaves_the_process_unclean() -> None:
    session, _ = session_for(Isolation.UNDECIDED)
    session.before_action(Frame(PLAIN))
    assert not session.may_have_workers
    assert not session.leaves_process_clean


def test_a_session_with_settings_of_its_task_is_not_reused() -> None:
    session, _ = session_for(Isolation.SHARED)
    assert session.empty_session(SparkSession(), (), has_settings=False)
    assert not session.empty_session(SparkSession(), (), has_settings=True)


def test_a_dedicated_policy_reuses_nothing() -> None:
    applied: list[bool] = []
    policy = DedicatedSession()
    policy.select(TASKS[Isolation.SHARED], lambda: applied.append(True))
    assert applied == [True]
    assert policy.may_have_workers
    assert not policy.judge(TASKS[Isolation.SHARED])
    assert not policy.leaves_process_clean
    assert not policy.empty_session(SparkSession(), (), has_settings=False)
