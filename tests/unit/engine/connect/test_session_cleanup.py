"""Ending a session through the janitor, and killing its server if that fails."""

import asyncio
from typing import Any

import pytest

from stoker.engine.connect.session_cleanup import SessionCleanup
from stoker.engine.protocol import EndSession, FromRunner, SessionEnded, SessionNotEnded
from stoker.osproc.exit import ProcessExit
from stoker.testing.virtual_time import run_virtual

ENDED = SessionEnded(session_id="session")
NOT_ENDED = SessionNotEnded(session_id="session", reason="it is not over")
UNINTERRUPTIBLE = SessionNotEnded(
    session_id="session", reason="they do not stop", uninterruptible=True
)


class Janitor:
    """A janitor with scripted answers, which stands for the zygote that forks it, too."""

    is_alive = True

    def __init__(self, *answers: FromRunner) -> None:
        self._answers = list(answers)
        self.requests: list[EndSession] = []

    async def get(self) -> "Janitor":
        return self

    async def fork(self, *, janitor: bool) -> "Janitor":
        assert janitor
        return self

    async def send(self, message: EndSession) -> None:
        self.requests.append(message)

    async def receive(self) -> FromRunner:
        await asyncio.sleep(1)
        return self._answers.pop(0)

    async def kill(self) -> None: ...


class Server:
    ui, pid = "http://spark", 1

    def __init__(self) -> None:
        self.died: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()

    def url(self, session_id: str) -> str:
        return f"sc://{session_id}"

    def kill(self, reason: str, *, is_collateral: bool) -> None:
        assert is_collateral
        self.died.set_result(ProcessExit(code=-9, explanation=reason))


def end_session(janitor: Janitor, seconds: float) -> tuple[SessionEnded | None, bool]:
    """The answer to the clean-up, and whether the server died."""

    async def main() -> tuple[SessionEnded | None, bool]:
        link: Any = janitor
        server: Any = Server()
        kill_at = asyncio.get_running_loop().time() + seconds
        ended = await SessionCleanup(link).end(server, "session", kill_at=kill_at)
        return ended, server.died.done()

    return run_virtual(main)


def test_ending_a_session_is_retried_until_it_succeeds() -> None:
    assert end_session(Janitor(NOT_ENDED, NOT_ENDED, ENDED), 60) == (ENDED, False)


def test_uninterruptible_tasks_end_with_their_server() -> None:
    janitor = Janitor(NOT_ENDED, UNINTERRUPTIBLE)
    assert end_session(janitor, 60) == (None, True)
    first, second = (message.uninterruptible_after for message in janitor.requests)
    assert first - second == pytest.approx(1.5), "time that has passed is not granted again"


def test_a_runner_that_used_up_the_time_leaves_none_for_the_cleanup() -> None:
    janitor = Janitor(ENDED)
    assert end_session(janitor, -3) == (ENDED, False)
    assert janitor.requests[0].uninterruptible_after == 0
