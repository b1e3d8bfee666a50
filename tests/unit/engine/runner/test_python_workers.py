"""Which children of a Spark server are Python workers."""

import pytest

from stoker.engine.runner import python_workers


class Asked:
    """A session that tells its id, and counts how often it had to."""

    def __init__(self) -> None:
        self.times = 0

    def sql(self, _statement: str) -> "Asked":
        self.times += 1
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
def test_spark_is_asked_only_when_there_are_workers(
    monkeypatch: pytest.MonkeyPatch, programs: list[str], asked: bool
) -> None:
    """Commands that remove files of other sessions are none of them."""
    monkeypatch.setattr(python_workers, "children_of", lambda _server: range(len(programs)))
    monkeypatch.setattr(python_workers, "program_of", programs.__getitem__)
    session = Asked()
    mark = python_workers.workers_of(session, 1234)
    assert bool(mark) is asked
    assert session.times == int(asked)
