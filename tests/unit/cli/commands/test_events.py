"""`stoker events`."""

import asyncio
import json
import threading
import time

import click
import pytest

from stoker.cli.commands.records import events as command
from stoker.client.operations import MOST_EVENTS_A_PAGE
from stoker.events.event import EventKind
from stoker.testing.sample_jobs import RUNNING
from unit.cli.conftest import ServedMaster
from unit.events.logged import OTHER, event


async def test_events_are_shown_the_newest_last_with_what_is_missing(served: ServedMaster) -> None:
    assert (await served("events")).stdout == "No events.\n"
    served.master.dispatcher.events = [
        event(1, 1, EventKind.LEADER_CHANGED, job=None, text="master-0 leads in epoch 1"),
        event(1, 4, EventKind.JOB_FAILED, text="failed:\x1b[31m red"),
    ]
    result = await served("events")
    assert result.exit_code == 0
    first, gap, last = result.stdout.splitlines()
    assert first.endswith("leader-changed         master-0 leads in epoch 1")
    assert gap == "… 2 events up to 1-4 could not be written in time"
    assert last.endswith("job-failed             orders (aaaaaaaaaaaa): failed:�[31m red")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--kind", "job-failed", "--kind", "job-finished"), ["1-3"]),
        (("--job", OTHER), ["1-3"]),
        (("--job", "socket"), ["1-2"]),
        (("--owner", "ana"), ["1-1", "1-2", "1-3"]),
        (("--lines", "2"), ["1-2", "1-3"]),
        (("--lines", "0"), []),
        (("--since", "1 h"), ["1-3"]),
        (("--until", "2026-01-01"), ["1-1", "1-2"]),
    ],
)
async def test_events_are_selected(
    served: ServedMaster, arguments: tuple[str, ...], expected: list[str]
) -> None:
    name = served.master.dispatcher.jobs[RUNNING].name
    arguments = tuple(name if each == "socket" else each for each in arguments)
    served.master.dispatcher.events = [
        event(1, 1),
        event(1, 2, job=RUNNING),
        event(1, 3, EventKind.JOB_FAILED, job=OTHER, at=round(time.time() * 1000)),
    ]
    result = await served("events", "--json", *arguments)
    assert [each["id"] for each in json.loads(result.stdout)] == expected


async def test_more_events_than_a_page_holds_are_shown_once_each(served: ServedMaster) -> None:
    count = MOST_EVENTS_A_PAGE + 200
    served.master.dispatcher.events = [event(1, number) for number in range(1, count + 1)]
    result = await served("events", "--json", "--lines", str(count))
    ids = [each["id"] for each in json.loads(result.stdout)]
    assert ids == [f"1-{number}" for number in range(1, count + 1)]


async def test_what_follows_is_printed_once(
    served: ServedMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what happens between the first request and the first page."""
    log = served.master.dispatcher.events = [event(1, 1)]
    shown: list[str] = []
    enough = threading.Event()

    def note(line: str) -> None:
        shown.append(line.rsplit(maxsplit=1)[-1])
        if len(shown) >= 4:
            enough.set()
            raise click.Abort

    monkeypatch.setattr(command, "_line", lambda each: f"{each.id}")
    monkeypatch.setattr(command.click, "echo", note)
    following = asyncio.create_task(served("events", "--follow"))
    for number in (2, 3, 4):
        log.append(event(1, number))
        await asyncio.sleep(0)
    await following
    assert enough.is_set()
    assert shown[:4] == ["1-1", "1-2", "1-3", "1-4"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--since", "yesterday"), "write how long ago"),
        (("--kind", "explosion"), "is not one of"),
        (("--lines", "-1"), "lines"),
    ],
)
async def test_a_wrong_option_is_refused_with_a_remedy(
    served: ServedMaster, arguments: tuple[str, ...], reason: str
) -> None:
    result = await served("events", *arguments)
    assert result.exit_code == 2
    assert reason in result.stderr
