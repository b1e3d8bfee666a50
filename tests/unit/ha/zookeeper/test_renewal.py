"""An auto-renewing coordinator opens sessions until one is granted, on virtual time."""

import asyncio
from typing import Any

import pytest

from builders import virtual, wait_until_quiet
from stoker.core.errors import CoordinatorUnavailable, InvalidOption, StokerError
from stoker.ha.coordinator import ConnectionState
from stoker.ha.zookeeper import coordinator as module
from stoker.ha.zookeeper.coordinator import ZooKeeperCoordinator
from stoker.ha.zookeeper.location import read_location
from stoker.ha.zookeeper.options import ZooKeeperOptions

LOCATION = read_location("zookeeper://zk1/stoker")


class FakeLink:
    """A session with servers that answer every call."""

    failures: list[StokerError]
    """Errors of the next sessions that are opened."""
    opened: list["FakeLink"]

    def __init__(self, report_state: Any) -> None:
        self.session = f"session-{len(FakeLink.opened)}"
        self.session_timeout = 10.0
        self.state = ConnectionState.CONNECTED
        self.report_state = report_state

    @classmethod
    async def open(cls, *_args: Any, report_state: Any, report_event: Any) -> "FakeLink":
        if cls.failures:
            raise cls.failures.pop(0)
        cls.opened.append(cls(report_state))
        return cls.opened[-1]

    def expire(self) -> None:
        self.state = ConnectionState.LOST
        self.report_state(self.state)

    async def call(self, _submit: Any) -> object:
        return object()

    async def end(self) -> None:
        self.state = ConnectionState.LOST


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> type[FakeLink]:
    FakeLink.failures, FakeLink.opened = [], []
    monkeypatch.setattr(module, "Link", FakeLink)
    return FakeLink


@pytest.mark.parametrize(
    "failure", [CoordinatorUnavailable("no server"), InvalidOption("credentials are refused")]
)
@virtual
async def test_a_session_that_cannot_be_renewed_is_tried_again(
    link: type[FakeLink], failure: StokerError
):
    """Servers that lost their accounts for a moment must not cut a process off for good."""
    coordinator = await ZooKeeperCoordinator.open(LOCATION, ZooKeeperOptions(), auto_renewing=True)
    link.failures = [failure] * 3
    link.opened[0].expire()
    assert coordinator.state is ConnectionState.SUSPENDED
    await wait_until_quiet(10)
    assert coordinator.state is ConnectionState.CONNECTED
    assert coordinator.session == "session-1"
    await coordinator.close()


@virtual
async def test_whoever_is_cancelled_while_closing_ends_as_cancelled(link: type[FakeLink]):
    coordinator = await ZooKeeperCoordinator.open(LOCATION, ZooKeeperOptions())
    await wait_until_quiet(1)
    closing = asyncio.create_task(coordinator.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert link.opened[0].state is ConnectionState.LOST, "the session has ended all the same"
    assert closing.cancelled()
