"""Ending all work of a session: what is begun while it is being ended is ended too."""

from types import SimpleNamespace

import pytest
from pyspark.sql.connect.proto import GetStatusResponse

from stoker.engine.runner import janitor

RUNNING = GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING


class Query:
    def __init__(self, session: "Session", run_id: str) -> None:
        self.runId = run_id
        self._session = session

    def stop(self) -> None:
        self._session.streams.active.remove(self)


class Session:
    """One operation runs, and begins a query in the moment in which it is interrupted."""

    session_id = "session"

    def __init__(self) -> None:
        self.streams = SimpleNamespace(active=[])
        self.client = self
        self.looks = 0

    def interruptAll(self) -> None:
        pass

    def _get_operation_statuses(self) -> SimpleNamespace:
        self.looks += 1
        if self.looks > 1:
            return SimpleNamespace(operation_statuses=[])
        self.streams.active.append(Query(self, "late"))
        running = SimpleNamespace(operation_id="start", state=RUNNING)
        return SimpleNamespace(operation_statuses=[running])


def test_a_query_that_an_interrupted_operation_has_just_begun_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, waited_for = Session(), []
    session.streams.active.append(Query(session, "early"))

    def has_active_tasks(_ui: str, owners: set[str]) -> bool:
        assert session.streams.active == []
        waited_for.append(owners)
        return len(waited_for) == 1

    monkeypatch.setattr(janitor, "has_active_tasks", has_active_tasks)
    janitor.end_all_work(session, "http://127.0.0.1:1", deaf_after=60)
    assert waited_for == [{"session", "early", "late"}] * 2


def test_tasks_that_do_not_heed_their_cancel_are_called_deaf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(janitor, "has_active_tasks", lambda _ui, _owners: True)
    monkeypatch.setattr(janitor, "_LEAST_HEARING_SECONDS", 0.1)
    with pytest.raises(janitor.TasksAreDeaf, match="go on 0 s after") as caught:
        janitor.end_all_work(Session(), "http://127.0.0.1:1", deaf_after=0.2)
    answer = janitor.not_ended("session", caught.value)
    assert answer.deaf
    assert "TasksAreDeaf" in answer.reason


def test_other_reasons_why_a_session_goes_on_call_nobody_deaf() -> None:
    assert not janitor.not_ended("session", TimeoutError("nobody answers")).deaf


def test_tasks_have_a_while_to_end_even_if_all_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark looks only every two seconds for Python workers that it must kill."""
    looks: list[str] = []

    def has_active_tasks(_ui: str, _owners: set[str]) -> bool:
        looks.append("look")
        return len(looks) < 5

    monkeypatch.setattr(janitor, "has_active_tasks", has_active_tasks)
    janitor.end_all_work(Session(), "http://127.0.0.1:1", deaf_after=0)
    assert len(looks) == 5
