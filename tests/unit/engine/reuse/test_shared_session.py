"""A session that shares what it can, until its task needs its own."""

import os
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.proto import base_pb2, relations_pb2

from stoker.engine.reuse import shared_session
from stoker.engine.reuse.isolation import Isolation
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
    """Speaks to the server by itself."""

    def __init__(self, stub: Stub) -> None:
        self._stub: Any = stub

    def add(self) -> None:
        self._stub.AddArtifacts(base_pb2.AddArtifactsRequest(session_id=SESSION))


class Client:
    """As much of PySpark's as is touched."""

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

    def say(self, name: str) -> None:
        getattr(self._stub, name)(base_pb2.ConfigRequest(session_id=SESSION))


class Frame:
    def __init__(self, root: relations_pb2.Relation, says: str | None = None) -> None:
        self._root = root
        self._says = says
        self._plan = self

    def to_proto(self, client: Client) -> base_pb2.Plan:
        if self._says is not None:
            client.say(self._says)
        return base_pb2.Plan(root=self._root)


OWN = ["ReleaseSession", f"CloneSession {dedicated_template(TEMPLATE)}"]
SETTINGS = ["Config"]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other tests of this process may have processes of their own."""
    others = set(children_of(os.getpid()))
    monkeypatch.setattr(shared_session, "children_of", lambda pid: set(children_of(pid)) - others)
    made = SparkConnectClient.__init__
    yield
    SparkConnectClient.__init__ = made  # type: ignore[method-assign]


def test_files_that_code_adds_first_are_added_to_its_own_session() -> None:
    session, client = begun(Isolation.OPEN)
    client._artifact_manager.add()
    assert client.stub.calls == [*SETTINGS, *OWN, *SETTINGS, "AddArtifacts"]
    assert session.may_have_workers
    assert client._artifact_manager._stub is client.stub


def begun(sharing: Isolation) -> tuple[SharedSession, Client]:
    client = Client()
    session = SharedSession(client, TEMPLATE)
    session.choose(sharing, lambda: client.say("Config"))
    return session, client


def test_what_shares_stays_and_what_needs_its_own_has_it_before_its_settings() -> None:
    for sharing, calls in ((Isolation.SHARED, SETTINGS), (Isolation.OWN, [*OWN, *SETTINGS])):
        session, client = begun(sharing)
        session.settle(Frame(WITH_CODE))
        client.say("ExecutePlan")
        assert client.stub.calls == [*calls, "ExecutePlan"]


@pytest.mark.parametrize(
    ("sharing", "plan", "may_have"),
    [
        (Isolation.SHARED, PLAIN, False),
        (Isolation.OPEN, PLAIN, False),
        (Isolation.OPEN, WITH_CODE, True),
        (Isolation.OWN, PLAIN, True),
    ],
)
def test_only_one_of_its_own_may_have_workers(
    sharing: Isolation, plan: relations_pb2.Relation, may_have: bool
) -> None:
    session, _ = begun(sharing)
    session.settle(Frame(plan))
    assert session.may_have_workers is may_have


def test_an_open_one_is_shared_when_its_plan_is_plain() -> None:
    session, client = begun(Isolation.OPEN)
    session.settle(Frame(PLAIN))
    client.say("ExecutePlan")
    assert client.stub.calls == [*SETTINGS, "ExecutePlan"]


def test_an_open_one_has_its_own_when_its_plan_has_code() -> None:
    session, client = begun(Isolation.OPEN)
    session.settle(Frame(WITH_CODE))
    # Else the server would miss the session that it was.
    assert client._server_session_id is None
    client.say("ExecutePlan")
    assert client.stub.calls == [*SETTINGS, *OWN, *SETTINGS, "ExecutePlan"]


@pytest.mark.parametrize(
    "word",
    ["AddArtifacts", "AnalyzePlan", "ArtifactStatus", "CloneSession", "Config", "ExecutePlan"],
)
def test_the_first_word_of_the_task_s_code_brings_it_into_its_own(word: str) -> None:
    session, client = begun(Isolation.OPEN)
    client.say(word)
    client.say(word)
    session.settle(Frame(PLAIN))
    assert client.stub.calls == [*SETTINGS, *OWN, *SETTINGS, word, word]


def test_a_word_that_making_the_plan_takes_counts_too() -> None:
    session, client = begun(Isolation.OPEN)
    session.settle(Frame(PLAIN, says="AnalyzePlan"))
    client.say("ExecutePlan")
    assert client.stub.calls == [*SETTINGS, *OWN, *SETTINGS, "AnalyzePlan", "ExecutePlan"]


def test_another_client_of_the_session_is_not_made_before_it_has_its_own() -> None:
    _, client = begun(Isolation.OPEN)
    with pytest.raises(TypeError):
        SparkConnectClient(no_such_argument=1)  # type: ignore[call-arg]
    assert client.stub.calls == [*SETTINGS, *OWN, *SETTINGS]


def test_threads_and_processes_that_the_task_s_code_left_may_speak_later() -> None:
    over = threading.Event()
    session, client = begun(Isolation.OPEN)
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        session.settle(Frame(PLAIN))
    finally:
        over.set()
        thread.join()
    assert client.stub.calls == [*SETTINGS, *OWN, *SETTINGS]
    session, client = begun(Isolation.OPEN)
    with subprocess.Popen(["sleep", "60"]) as process:
        session.settle(Frame(PLAIN))
        process.kill()
    assert client.stub.calls == [*SETTINGS, *OWN, *SETTINGS]


def test_to_cancel_an_open_one_is_no_word_of_its_code() -> None:
    _, client = begun(Isolation.OPEN)
    client.say("Interrupt")
    assert client.stub.calls == [*SETTINGS, "Interrupt"]


@pytest.mark.parametrize(("plan", "has"), [(PLAIN, False), (TABLE, True)])
def test_tables_that_the_plan_names_may_be_remembered_by_the_session(
    plan: relations_pb2.Relation, has: bool
) -> None:
    session, _ = begun(Isolation.OPEN)
    session.settle(Frame(plan))
    assert not session.may_have_workers
    assert session.has_named_tables is has
