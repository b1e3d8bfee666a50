"""One attempt of one region, without Spark."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from builders import build_graph
from stoker.core.graph import FormatWrite, Sink
from stoker.core.ids import AttemptId
from stoker.core.regions import regions_of
from stoker.engine.protocol import RunTask
from stoker.engine.region.run import RegionExecution
from stoker.engine.reuse.session_policy import DedicatedSession, SessionPolicy
from stoker.engine.reuse.shared_session import SharedSession


class Client:
    """The parts of PySpark's client that decide how many calls an action takes."""

    is_reattachable = True
    retry_policies: tuple[str, ...] = ("PySpark's own",)

    def get_retry_policies(self) -> tuple[str, ...]:
        return self.retry_policies

    def set_retry_policies(self, policies: tuple[str, ...]) -> None:
        self.retry_policies = tuple(policies)

    def disable_reattachable_execute(self) -> None:
        self.is_reattachable = False

    def enable_reattachable_execute(self) -> None:
        self.is_reattachable = True


class Frame:
    """A DataFrame and its writer; `save` is called when the rows would be written."""

    def __init__(self, save: Callable[..., None]) -> None:
        self.write = self
        self.save = save

    def mode(self, _mode: str) -> "Frame":
        return self

    def options(self, **_options: str) -> "Frame":
        return self

    def format(self, _name: str) -> "Frame":
        return self


@pytest.mark.parametrize(
    "policy",
    [lambda _client: DedicatedSession(), lambda client: SharedSession(client, "template")],
    ids=["dedicated", "shared"],
)
def test_a_write_takes_one_call_whether_or_not_sessions_are_reused(
    tmp_path: Path, policy: Callable[[Client], SessionPolicy]
) -> None:
    client, seen = Client(), []
    graph = build_graph()
    task = RunTask(
        graph=graph,
        region=regions_of(graph)[-1],
        attempt=AttemptId("1"),
        directory=str(tmp_path),
        materialized_root=tmp_path.as_uri(),
        checkpoint_root=tmp_path.as_uri(),
        artifacts={},
    )
    session: Any = SimpleNamespace(client=client, registerProgressHandler=lambda _handler: None)
    run = RegionExecution(
        session, policy(client), task, lambda _progress: None, lambda: None, lambda _: None
    )
    frame = Frame(lambda *_path: seen.append((client.is_reattachable, client.retry_policies)))
    sink = Sink(name="out", input="in", write=FormatWrite(format="noop"))
    run._write_batch(sink, cast(Any, frame), cast(Any, None))
    assert seen == [(False, ())]
    assert client.is_reattachable
    assert client.retry_policies == Client.retry_policies
