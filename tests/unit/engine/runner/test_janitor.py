"""All work of a session is ended, including work that starts meanwhile."""

import io
import json
import urllib.error
import urllib.request
from email.message import Message
from types import SimpleNamespace

import pytest
from pyspark.sql.connect.proto import GetStatusResponse

from stoker.engine import python_workers, spark_page
from stoker.engine.runner import janitor
from stoker.engine.runner.janitor import is_job_of, may_have_active_tasks, session_mark_in

RUNNING = GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING


class Query:
    def __init__(self, session: "Session", run_id: str) -> None:
        self.runId = run_id
        self._session = session

    def stop(self) -> None:
        self._session.streams.active.remove(self)


class Session:
    """A session with one operation, which starts a query just when it is interrupted."""

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
    janitor.end_all_work(session, "http://127.0.0.1:1", uninterruptible_after=60)
    assert waited_for == [{"session", "early", "late"}] * 2


def test_tasks_that_ignore_their_cancellation_are_reported_as_uninterruptible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(janitor, "has_active_tasks", lambda _ui, _owners: True)
    monkeypatch.setattr(janitor, "_LEAST_TASK_SECONDS", 0.1)
    with pytest.raises(janitor.UninterruptibleTasks, match="still run 0 s after") as caught:
        janitor.end_all_work(Session(), "http://127.0.0.1:1", uninterruptible_after=0.2)
    answer = janitor.session_not_ended("session", caught.value)
    assert answer.uninterruptible
    assert "UninterruptibleTasks" in answer.reason


def test_other_reasons_why_a_session_continues_are_not_reported_as_uninterruptible() -> None:
    assert not janitor.session_not_ended("session", TimeoutError("nobody answers")).uninterruptible


def test_tasks_get_a_moment_to_end_even_if_the_timeout_has_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark looks only every two seconds for Python workers to kill."""
    looks: list[str] = []

    def has_active_tasks(_ui: str, _owners: set[str]) -> bool:
        looks.append("look")
        return len(looks) < 5

    monkeypatch.setattr(janitor, "has_active_tasks", has_active_tasks)
    janitor.end_all_work(Session(), "http://127.0.0.1:1", uninterruptible_after=0)
    assert len(looks) == 5


class CountingSession:
    """A session that counts the queries for its id."""

    def __init__(self) -> None:
        self.queries = 0

    def sql(self, _statement: str) -> "CountingSession":
        self.queries += 1
        return self

    def collect(self) -> list[tuple[str]]:
        return [("Some(JobArtifactState(0a1b2c3d-0a1b-4a1b-8a1b-0a1b2c3d4e5f,None))",)]


@pytest.mark.parametrize(
    ("programs", "asked"),
    [
        ([], False),
        (["rm", "jspawnhelper", "java", ""], False),
        (["rm", "python3.11"], True),
        (["pypy3"], True),
    ],
)
def test_spark_is_queried_only_when_there_are_python_workers(
    monkeypatch: pytest.MonkeyPatch, programs: list[str], asked: bool
) -> None:
    """Commands that remove files of other sessions are not Python workers."""
    monkeypatch.setattr(python_workers, "children_of", lambda _server: range(len(programs)))
    monkeypatch.setattr(python_workers, "program_of", programs.__getitem__)
    session = CountingSession()
    mark = janitor.python_workers_of(session, 1234)
    assert bool(mark) is asked
    assert session.queries == int(asked)


@pytest.mark.parametrize(
    ("status", "active", "expected"),
    [
        ("RUNNING", 0, True),
        ("RUNNING", 2, True),
        ("FAILED", 0, True),
        ("UNKNOWN", 0, True),
        ("SUCCEEDED", 1, True),
        ("SUCCEEDED", 0, False),
    ],
)
def test_only_a_job_that_succeeded_is_known_to_have_no_tasks(
    status: str, active: int, expected: bool
) -> None:
    assert may_have_active_tasks({"status": status, "numActiveTasks": active}) is expected


def test_a_job_belongs_to_the_session_that_its_group_or_a_tag_names() -> None:
    assert is_job_of({"jobGroup": "run-1"}, {"run-1"})
    assert is_job_of({"jobTags": ["spark-connect-session-s1"]}, {"s1"})
    assert not is_job_of({"jobGroup": "run-2", "jobTags": []}, {"run-1", "s1"})


def test_the_mark_of_python_workers_is_read_from_the_answer_of_spark() -> None:
    name = "273790b4-dc30-49b1-b6df-a7752e02be44"
    said = f"Some(JobArtifactState({name},Some(spark://h:1/artifacts/{name}/classes/)))"
    assert session_mark_in(said) == name
    assert session_mark_in("None") == ""


class SparkPages:
    """Spark's monitoring with one job of the session `session`; unlisted pages do not exist."""

    def __init__(self, **pages: object) -> None:
        root = "http://spark/api/v1/applications"
        self._pages = {root: [{"id": "app"}]} | {
            f"{root}/app/{name}": page for name, page in pages.items()
        }

    def open(self, request: urllib.request.Request, timeout: float) -> io.StringIO:
        url = request.full_url
        if url not in self._pages:
            raise urllib.error.HTTPError(url, 404, "Not Found", Message(), None)
        return io.StringIO(json.dumps(self._pages[url]))


def test_a_stage_that_spark_has_forgotten_has_no_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    job = {"jobGroup": "session", "status": "FAILED", "numActiveTasks": 0, "stageIds": [7]}
    monkeypatch.setattr(spark_page, "_direct", SparkPages(jobs=[job]))
    assert not janitor.has_active_tasks("http://spark", {"session"})


def test_a_missing_page_does_not_prove_that_work_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_page, "_direct", SparkPages())
    with pytest.raises(OSError, match="Not Found"):
        janitor.executing_operations("http://spark")
    with pytest.raises(OSError, match="Not Found"):
        janitor.has_active_tasks("http://spark", {"session"})
