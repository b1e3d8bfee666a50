"""A Spark server as those who have tasks at it see it."""

import asyncio
from typing import Any

import pytest

from stoker.engine.connect import server
from stoker.engine.connect.server import SparkServer, Verdict


async def ends(reason: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return reason


async def test_one_that_is_gone_is_not_killed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process id may be somebody else's by now."""
    killed: list[int] = []
    monkeypatch.setattr(server, "kill_tree", killed.append)
    warden: Any = None
    verdict = Verdict()
    one = SparkServer(
        pid=7,
        warden=warden,
        port=1,
        token="",
        ui="",
        died=asyncio.create_task(ends("exit code 1", 0)),
        verdict=verdict,
    )
    one.put_down("its tasks were deaf", is_neighbours=True)
    assert (killed, verdict.reason) == ([7], "its tasks were deaf")
    assert verdict.is_neighbours
    await one.died
    one.put_down("again", is_neighbours=False)
    assert killed == [7]
