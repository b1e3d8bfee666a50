"""Every private attribute of PySpark that the engine relies on, and its purpose.

A new version of PySpark that renames or moves one of them fails here first. Public names whose
replacement the engine relies on (monkey patches) are pinned as well.
"""

import inspect
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder, SparkConnectClient
from pyspark.sql.connect.proto import GetStatusResponse, base_pb2
from pyspark.sql.connect.session import SparkSession as ConnectSession
from pyspark.sql.connect.udf import UserDefinedFunction as ConnectUdf
from pyspark.sql.udf import UserDefinedFunction as ClassicUdf

from stoker.engine.reuse.connection import ServerConnection


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """A session whose server does not exist: nothing here calls it."""
    patch = pytest.MonkeyPatch()
    # PySpark sets this variable and never unsets it.
    patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    connection = ServerConnection()
    url = f"sc://localhost:1/;token=none;user_id=nobody;session_id={uuid.uuid4()}"
    opened = connection.open(url)
    channel = opened.client._channel
    try:
        yield opened
    finally:
        connection.release(opened)
        channel.close()
        patch.undo()


CLIENT = {
    "_stub": "watched while isolation is undecided; clones and releases sessions",
    "_artifact_manager": "has a stub of its own, which is watched too",
    "_builder": "user agent and metadata of hand-made requests",
    "_user_id": "user of hand-made requests",
    "_session_id": "id under which a copy of a template starts",
    "_server_session_id": "reset when another session takes the place of this one",
    "_channel": "the connection that the next session of the runner uses",
    "_plan_compression_threshold": "set, so that the client does not ask the server for it",
    "_plan_compression_algorithm": "set, so that the client does not ask the server for it",
    "_get_operation_statuses": "tells which operations of a session still run",
}


@pytest.mark.parametrize("name", CLIENT, ids=str)
def test_the_connect_client_has_the_private_attribute(session: Any, name: str) -> None:
    assert hasattr(session.client, name), CLIENT[name]


@pytest.mark.parametrize(
    "name",
    [
        "get_retry_policies",
        "set_retry_policies",
        "disable_reattachable_execute",
        "enable_reattachable_execute",
        "release_session",
    ],
)
def test_the_connect_client_has_the_undocumented_method(session: Any, name: str) -> None:
    """With these methods, the engine writes in a single call and ends a session."""
    assert callable(getattr(session.client, name))


def test_replacing_the_stub_diverts_the_calls_of_the_client(session: Any) -> None:
    for caller in (session.client, session.client._artifact_manager):
        before, other = caller._stub, object()
        caller._stub = other
        assert caller._stub is other
        caller._stub = before


def test_the_builder_of_a_client_gives_user_agent_and_metadata(session: Any) -> None:
    assert isinstance(session.client._builder.userAgent, str)
    assert list(session.client._builder.metadata()) is not None


def test_a_channel_builder_may_return_an_existing_channel() -> None:
    """A later session of a runner uses the connection of the first."""
    assert callable(DefaultChannelBuilder.toChannel)
    assert hasattr(ConnectSession.builder, "channelBuilder")


def test_pyspark_remembers_connect_sessions_in_two_attributes() -> None:
    """Both are cleared when a session is released, so that no code gets that session again."""
    sessions: Any = ConnectSession
    assert hasattr(sessions, "_default_session")
    assert hasattr(sessions, "_active_session")


def test_every_client_is_created_by_init() -> None:
    """The engine replaces it while isolation is undecided, to notice other clients."""
    assert "__init__" in vars(SparkConnectClient)


def test_a_frame_has_a_plan_and_an_explanation(session: Any) -> None:
    """The plan decides whether a task may share its session; the explanation shows state keys."""
    frame = session.range(10)
    assert isinstance(frame._plan.to_proto(session.client), base_pb2.Plan)
    assert "extended" in inspect.signature(frame._explain_string).parameters


def test_a_classic_session_can_repartition_the_state_of_a_stream() -> None:
    sessions: Any = SparkSession
    assert hasattr(sessions, "_streamingCheckpointManager")


def test_the_states_of_an_ended_operation_exist() -> None:
    for state in ("UNKNOWN", "SUCCEEDED", "FAILED", "CANCELLED"):
        assert hasattr(GetStatusResponse.OperationStatus, f"OPERATION_STATE_{state}")


def test_a_classic_udf_has_what_a_connect_udf_needs() -> None:
    """`UserDefinedFunction.__call__` is replaced where there is no JVM in the process."""
    made: Any = ClassicUdf(lambda x: x, "int", name="same")
    assert "__call__" in vars(ClassicUdf)
    for name in ("func", "_returnType", "_name", "evalType", "deterministic"):
        assert hasattr(made, name), name
    parameters = inspect.signature(ConnectUdf.__init__).parameters
    assert {"returnType", "name", "evalType", "deterministic"} <= set(parameters)


def test_a_classic_driver_finds_context_session_and_jvm() -> None:
    """The driver creates all three before the job is known, watches them, and ends them."""
    context: Any = SparkContext
    for name in ("_ensure_initialized", "_gateway", "_active_spark_context"):
        assert hasattr(context, name), name
    assert hasattr(SparkSession, "_instantiatedSession")


def test_a_program_gets_its_classic_session_through_these_functions() -> None:
    """The engine replaces them, so that a program gets the session that is already warm."""
    builder: Any = SparkSession.Builder
    assert "getOrCreate" in vars(builder)
    assert hasattr(builder(), "_options")
    assert "__init__" in vars(SparkContext)
    assert isinstance(vars(SparkContext)["getOrCreate"], classmethod)


def test_a_context_keeps_its_java_context_in_jsc() -> None:
    """The engine sets the working directory of the program in its file system."""
    assert "self._jsc" in inspect.getsource(SparkContext._do_init)  # type: ignore[attr-defined]
