"""Listening, closing, and where a server may listen at all."""

import asyncio
import socket
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.rest_cluster import RUNNING, Master
from stoker.core.errors import InvalidOption, StartupFailed
from stoker.rest.options import RestOptions
from stoker.rest.ports import parse_ports


def options(port: str, **others: object) -> RestOptions:
    return RestOptions(bind_port=port, **others)  # type: ignore[arg-type]


async def test_the_first_free_port_is_taken() -> None:
    """REST-01"""
    with socket.create_server(("127.0.0.1", 0)) as occupied, socket.socket() as probe:
        taken = occupied.getsockname()[1]
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
        probe.close()
        async with Master(options=options(f"{taken},{free}")).serving() as url:
            assert url == f"http://127.0.0.1:{free}"


async def test_a_port_in_use_is_named_with_its_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        with pytest.raises(StartupFailed, match=rf"{port}; .* change rest\.bind-port"):
            async with Master(options=options(str(port))).serving():
                pass


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
async def test_listening_for_other_machines_without_authentication_is_refused(
    address: str,
) -> None:
    with pytest.raises(InvalidOption, match=r"rest\.bind-address"):
        async with Master(options=options("0", bind_address=address)).serving():
            pass


async def test_the_advertised_name_stands_in_the_url() -> None:
    async with Master(options=options("0", address="localhost")).serving() as url:
        assert url.startswith("http://localhost:")


async def test_a_request_in_progress_ends_before_the_server_does() -> None:
    """REST-06"""
    master = Master()
    dispatcher = master.dispatcher
    dispatcher.gate.clear()
    async with httpx.AsyncClient() as http:
        async with master.serving() as url:
            slow = asyncio.create_task(http.get(f"{url}/jobs"))
            await dispatcher.arrived.wait()
            asyncio.get_running_loop().call_later(0.05, dispatcher.gate.set)
        assert (await slow).status_code == 200
        with pytest.raises(httpx.ConnectError):
            await http.get(f"{url}/jobs")


async def test_a_request_that_does_not_end_is_told_to_ask_again() -> None:
    """REST-06"""
    master = Master(options=options("0", shutdown_timeout=timedelta(seconds=0)))
    master.dispatcher.gate.clear()
    async with httpx.AsyncClient() as http:
        async with master.serving() as url:
            slow = asyncio.create_task(http.get(f"{url}/jobs"))
            await master.dispatcher.arrived.wait()
        assert (await slow).status_code == 503


async def test_one_who_waits_for_a_change_does_not_hold_up_the_end_of_the_server() -> None:
    master = Master(options=options("0", shutdown_timeout=timedelta(minutes=1)))
    async with httpx.AsyncClient() as http:
        async with asyncio.timeout(20), master.serving() as url:
            waiting = asyncio.create_task(
                http.get(f"{url}/jobs/{RUNNING}/status?wait=30&known=RUNNING")
            )
            await master.dispatcher.asked_to_wait.wait()
        answer = await waiting
    assert answer.status_code == 503
    assert "ask again" in answer.json()["errors"][0]


async def test_a_client_that_goes_away_in_its_upload_leaves_no_file(tmp_path: Path) -> None:
    """REST-10"""
    master = Master(options=options("0", upload_directory=tmp_path))
    head = (
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
        b'Content-Disposition: form-data; name="artifact"; filename="a"\r\n\r\nabc'
    )
    async with master.serving() as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(head)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "x", "80-", "-80", "90-80", "70000", "80,,81", "1-2-3"])
def test_ports_that_make_no_sense_are_refused_with_the_option(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"rest\.bind-port"):
        parse_ports(text, "rest.bind-port")


@given(st.lists(st.tuples(st.integers(1, 65000), st.integers(0, 500)), min_size=1))
def test_every_port_that_is_written_is_tried_in_order(pairs: list[tuple[int, int]]) -> None:
    text = ", ".join(f"{first}-{first + more}" if more else str(first) for first, more in pairs)
    ports = [port for each in parse_ports(text, "x") for port in each]
    assert ports == [port for first, more in pairs for port in range(first, first + more + 1)]
