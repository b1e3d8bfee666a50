"""Plain HTTP at a port with TLS."""

import asyncio
import ssl
from datetime import timedelta

import httpx
import pytest

from contract.certificates import authority
from stoker.rest.http.tls_port import plain_answer
from stoker.rest.options import RestOptions
from stoker.security.material import client_context
from stoker.testing.rest import Master

OURS = authority().material


@pytest.fixture
def trust() -> ssl.SSLContext:
    return client_context(OURS.authorities, None, None)


async def test_a_page_in_plain_http_is_redirected_to_https(trust: ssl.SSLContext) -> None:
    async with Master(tls=OURS).serving() as url, httpx.AsyncClient(verify=trust) as http:
        clear = url.replace("https://", "http://")
        answer = await http.get(f"{clear}/v1/overview?a=1", headers={"host": "evil.example"})
        assert answer.status_code == 307
        assert answer.headers["location"] == f"{url}/v1/overview?a=1"
        assert url in answer.json()["errors"][0]
        followed = await http.get(f"{clear}/v1/overview", follow_redirects=True)
        assert followed.status_code == 200


async def test_a_submission_in_plain_http_is_refused(trust: ssl.SSLContext) -> None:
    async with Master(tls=OURS).serving() as url, httpx.AsyncClient(verify=trust) as http:
        answer = await http.post(f"{url.replace('https://', 'http://')}/jobs", files={"a": b"x"})
        assert answer.status_code == 400
        assert answer.json() == {"errors": [f"this port speaks TLS: use {url}"]}


async def test_clients_that_say_nothing_or_nonsense_delay_nobody(trust: ssl.SSLContext) -> None:
    async with Master(tls=OURS).serving() as url, httpx.AsyncClient(verify=trust) as http:
        port = int(url.rpartition(":")[2])
        waiting = []
        for said in (
            b"",
            b"\x16",
            b"\x16" + b"\0" * 100,
            b"\0\0\0\0\r\n\r\n",
            b"GET / HTTP/1.1\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            waiting.append((reader, writer))
        for _ in range(3):
            assert (await http.get(f"{url}/overview")).status_code == 200
        for _, writer in waiting:
            writer.close()


async def test_a_handshake_that_does_not_end_is_given_up(trust: ssl.SSLContext) -> None:
    options = RestOptions(bind_port="0", header_timeout=timedelta(seconds=0.1))
    async with asyncio.timeout(20), Master(tls=OURS, options=options).serving() as url:
        for said in (b"", b"\x16", b"GET /"):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(said)
            assert await reader.read() == b""
            writer.close()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /jobs HTTP/1.1\r\nhost: x\r\n\r\n", b"307"),
        (b"HEAD / HTTP/1.0\r\n\r\n", b"307"),
        (b"DELETE /cluster HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://evil.example/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /\r\n", b"400"),
        (b"\xff\xfe", b"400"),
        (b"", b"400"),
    ],
)
def test_only_a_request_without_a_body_is_redirected(head: bytes, status: bytes) -> None:
    answer = plain_answer(head, "https://127.0.0.1:8081")
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"https://127.0.0.1:8081" in answer
    assert answer.count(b"\r\n\r\n") == 1
