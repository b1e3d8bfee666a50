"""Who listens on a port, by rows of /proc/net/tcp and /proc/net/tcp6."""

import os
import socket

import pytest

from stoker.osproc.listeners import listeners_in, users_listening_on

TAIL = "00000000:00000000 00:00000000 00000000 {uid:5} 0 29463 1 0000000000000000 100 0 0 10 0"


def row(address: str, port: int, uid: int, state: str = "0A") -> str:
    peer = "0" * len(address)
    return f"   0: {address}:{port:04X} {peer}:0000 {state} {TAIL.format(uid=uid)}"


@pytest.mark.parametrize(
    "address",
    [
        "0100007F",
        "00000000",
        "0" * 32,
        "00000000000000000000000001000000",
        "0000000000000000FFFF00000100007F",
    ],
)
def test_whoever_clients_of_loopback_may_reach_is_found(address: str) -> None:
    assert listeners_in([row(address, 8081, 1000), row(address, 8082, 1001)], 8081) == {1000}


def test_connections_and_listeners_on_other_interfaces_do_not_count() -> None:
    rows = [row("0100007F", 8081, 1000, "01"), row("0700000A", 8081, 1001)]
    assert listeners_in(rows, 8081) == set()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_listener_of_this_user_is_found(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        port = listener.getsockname()[1]
        assert users_listening_on(port) == {os.getuid()}
    assert users_listening_on(port) == set()
