"""A TLS connection that breaks is a master out of reach, not a master that is not trusted."""

import asyncio
from datetime import timedelta

import pytest

from stoker.client.asynchronous import AsyncClient
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import Unavailable

OPTIONS = ClientOptions(retries=2, retry_delay=timedelta(0))


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_call_is_repeated_when_the_tls_handshake_is_cut_off(blocking: bool) -> None:
    """A proxy without a running master behind it accepts connections and closes them."""
    handshakes = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal handshakes
        handshakes += 1
        await reader.read(64 * 1024)
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(Unavailable, match=r"at https://.*: connection cut off; is it running"):
            if blocking:
                await asyncio.to_thread(BlockingClient(url, OPTIONS).jobs)
            else:
                async with AsyncClient(url, OPTIONS) as client:
                    await client.jobs()
    assert handshakes == 3
