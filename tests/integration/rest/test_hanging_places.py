"""A storage that never answers delays nobody but those who ask for it."""

import asyncio
import socket
import time

import httpx

from stoker.rest.options import RestOptions
from stoker.savepoints.places import Places
from stoker.storage.threads import ForeignThreads
from stoker.testing.rest import Master


async def test_other_requests_go_on_while_a_storage_does_not_answer() -> None:
    """The driver of ftp connects and waits for a greeting, which never comes."""
    places = Places(schemes=["ftp"], off_loop=ForeignThreads(limit=2, seconds=1.0))
    options = RestOptions(bind_port="0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ftp://127.0.0.1:{silent.getsockname()[1]}/a/b"
        async with (
            Master(places=places, options=options).serving() as server,
            httpx.AsyncClient(base_url=server, timeout=60) as http,
        ):
            shows = [
                asyncio.create_task(http.get("/savepoints/show", params={"path": url}))
                for _ in range(6)
            ]
            slowest = 0.0
            while not all(show.done() for show in shows):
                began = time.monotonic()
                assert (await http.get("/overview")).status_code == 200
                assert await asyncio.to_thread(lambda: True)
                slowest = max(slowest, time.monotonic() - began)
                await asyncio.sleep(0.01)
            answers = [show.result() for show in shows]
    assert {answer.status_code for answer in answers} == {503}
    assert "no answer in 1 s" in answers[0].text
    assert slowest < 1.0
