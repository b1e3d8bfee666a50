"""Clients that were given a wrong address say what is wrong, at once."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from contract.certificates import authority
from stoker.client.asynchronous import AsyncClient
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import InvalidOption, StokerError, Unavailable
from stoker.testing.rest import Master

OPTIONS = ClientOptions(authorities=authority().certificate)


@asynccontextmanager
async def server(answer: bytes, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that gives this answer to everything, then hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64 * 1024)
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as running:
        yield running.sockets[0].getsockname()[1]


async def error_of(url: str, *, blocking: bool) -> StokerError:
    with pytest.raises(StokerError) as caught:
        if blocking:
            await asyncio.to_thread(BlockingClient(url, OPTIONS).jobs)
        else:
            async with AsyncClient(url, OPTIONS) as client:
                await client.jobs()
    return caught.value


def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority().material.certificate, authority().material.key)
    return context


@pytest.mark.parametrize("blocking", [True, False])
async def test_http_to_a_port_with_tls_names_https(blocking: bool) -> None:
    async with server(b"", tls()) as port:
        error = await error_of(f"http://127.0.0.1:{port}", blocking=blocking)
    assert isinstance(error, InvalidOption)
    assert f"uses TLS: name it https://127.0.0.1:{port}" in error.message


@pytest.mark.parametrize("blocking", [True, False])
async def test_https_to_a_port_without_tls_names_http(blocking: bool) -> None:
    async with Master().serving() as url:
        error = await error_of(url.replace("http://", "https://"), blocking=blocking)
    assert isinstance(error, InvalidOption)
    assert f"does not use TLS; if it is a master without TLS, name it {url}" in error.message


PAGE = b"<html>Welcome</html>"
PAGES = {
    status: b"HTTP/1.1 %d X\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b"
    % (status, len(PAGE), PAGE)
    for status in (200, 404)
}


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("status", list(PAGES))
async def test_another_web_server_is_not_taken_for_a_master(status: int, blocking: bool) -> None:
    async with server(PAGES[status]) as port:
        error = await error_of(f"http://127.0.0.1:{port}", blocking=blocking)
    assert isinstance(error, InvalidOption)
    assert f"is not a Stoker master (HTTP status {status}); correct the host" in error.message


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_service_without_http_is_named_as_such_after_a_second(blocking: bool) -> None:
    async with server(b"220 mail.example ESMTP\r\n") as port:
        began = asyncio.get_running_loop().time()
        error = await error_of(f"http://127.0.0.1:{port}", blocking=blocking)
        took = asyncio.get_running_loop().time() - began
    assert isinstance(error, Unavailable)
    if blocking:
        assert "what answers there does not use HTTP" in error.message
    assert took < 20, "not a minute"
