"""GET /events/log: filters, pages, owners."""

from typing import Any

import pytest

from stoker.events.event import EventKind
from stoker.testing.rest import Master
from unit.events.logged import JOB, OTHER, event


@pytest.fixture
def master() -> Master:
    made = Master()
    made.dispatcher.events = [
        event(1, 1, EventKind.LEADER_CHANGED, job=None, at=1000, owner=""),
        event(1, 2, EventKind.JOB_SUBMITTED, at=2000),
        event(1, 4, EventKind.JOB_FAILED, at=3000),
        event(2, 1, EventKind.JOB_SUBMITTED, job=OTHER, owner="ben", at=4000),
    ]
    return made


async def ask(master: Master, query: str = "", **headers: str) -> Any:
    async with master.in_process() as http:
        answer = await http.get(f"/events/log{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(answer: Any) -> list[str]:
    return [each["id"] for each in answer["events"]]


async def test_the_newest_event_comes_first_and_gaps_are_told(master: Master) -> None:
    answer = await ask(master)
    assert ids(answer) == ["2-1", "1-4", "1-2", "1-1"]
    assert answer["last"] == "2-1"
    assert answer["next"] is None
    [gap] = answer["gaps"]
    assert (gap["after"], gap["before"], gap["reason"], gap["missing"]) == (
        "1-2",
        "1-4",
        "dropped",
        1,
    )
    assert answer["events"][1] == {
        "id": "1-4",
        "time": 3000,
        "kind": "job-failed",
        "text": "something happened",
        "job": JOB,
        "job-name": "orders",
        "owner": "ana",
        "data": {},
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?kind=job-failed,leader-changed", ["1-4", "1-1"]),
        (f"?job={JOB.upper()}", ["1-4", "1-2"]),
        ("?owner=ben", ["2-1"]),
        ("?since=2000&until=4000", ["1-4", "1-2"]),
        ("?after=1-2", ["2-1", "1-4"]),
        ("?after=1-2&oldest-first=true", ["1-4", "2-1"]),
        ("?kind=of-a-newer-release", []),
    ],
)
async def test_events_are_searched(master: Master, query: str, expected: list[str]) -> None:
    assert ids(await ask(master, query)) == expected


async def test_pages_follow_each_other_by_their_marks(master: Master) -> None:
    found: list[str] = []
    answer = await ask(master, "?limit=1")
    while True:
        found += ids(answer)
        if answer["next"] is None:
            break
        answer = await ask(master, f"?limit=1&page={answer['next']}")
    assert found == ["2-1", "1-4", "1-2", "1-1"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("?after=x", "ids look like 7-42"),
        ("?page=1", "ids look like 7-42"),
        ("?job=x", "a job id is 32 hexadecimal digits"),
        ("?since=yesterday", "since"),
        ("?limit=0", "limit"),
        ("?limit=1001", "limit"),
    ],
)
async def test_a_wrong_parameter_is_named(master: Master, query: str, reason: str) -> None:
    async with master.in_process() as http:
        answer = await http.get(f"/events/log{query}")
    assert answer.status_code == 400
    assert reason in answer.json()["errors"][0]
