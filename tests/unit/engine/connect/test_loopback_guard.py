"""Nobody else can listen at ::1 on the port of a Spark server."""

import socket
from collections.abc import Iterator

import pytest

from stoker.core.errors import StartupFailed
from stoker.engine.connect import loopback_guard
from stoker.engine.connect.loopback_guard import guarded_port


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 on loopback")


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A server at 127.0.0.1, as Spark is one."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


@needs_ipv6
@pytest.mark.parametrize("address", ["::1", "::"])
@pytest.mark.parametrize("sharing", [None, socket.SO_REUSEADDR, socket.SO_REUSEPORT])
def test_the_port_cannot_be_taken_while_it_is_guarded(
    server: socket.socket, address: str, sharing: int | None
) -> None:
    with socket.socket(socket.AF_INET6) as thief:
        thief.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if sharing is not None:
            thief.setsockopt(socket.SOL_SOCKET, sharing, 1)
        with guarded_port(port_of(server)), pytest.raises(OSError):
            thief.bind((address, port_of(server)))
            thief.listen()


@needs_ipv6
def test_a_connection_to_the_guarded_port_is_refused_at_once(server: socket.socket) -> None:
    with guarded_port(port_of(server)), socket.socket(socket.AF_INET6) as client:
        client.settimeout(5)
        with pytest.raises(ConnectionRefusedError):
            client.connect(("::1", port_of(server)))


@needs_ipv6
def test_a_port_that_somebody_has_taken_stops_the_start(server: socket.socket) -> None:
    with socket.socket(socket.AF_INET6) as thief:
        thief.bind(("::1", port_of(server)))
        thief.listen()
        with (
            pytest.raises(StartupFailed, match=r"\[::1\] cannot be held.*another process"),
            guarded_port(port_of(server)),
        ):
            pass


@needs_ipv6
def test_the_port_is_free_again_at_the_end(server: socket.socket) -> None:
    for _ in range(2):
        with guarded_port(port_of(server)):
            pass


def test_a_machine_without_ipv6_needs_no_guard(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr(loopback_guard.socket, "socket", refuse)
    with guarded_port(port_of(server)):
        pass
