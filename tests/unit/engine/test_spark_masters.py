"""An absent Spark master is named at once."""

import asyncio
import socket

import pytest

from stoker.engine.spark_masters import find_absent_master


@pytest.fixture
def unused_address() -> str:
    """host:port without a listener. It is bound, so that no other process can listen there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


async def test_an_absent_master_is_named_with_a_remedy(unused_address: str) -> None:
    told = await find_absent_master(f"spark://{unused_address}")
    assert told is not None
    assert f"{unused_address}: Connection refused" in told
    assert "correct spark.master" in told


async def test_one_answering_master_of_several_is_enough(unused_address: str) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await find_absent_master(f"spark://{unused_address},127.0.0.1:{port}") is None


@pytest.mark.parametrize("master", ["local[*]", "yarn", "k8s://https://nowhere.invalid", ""])
async def test_masters_of_other_kinds_are_not_checked(master: str) -> None:
    assert await find_absent_master(master) is None


@pytest.mark.parametrize("master", ["spark://", "spark://host", "spark://host:port"])
async def test_an_invalid_address_is_named(master: str) -> None:
    assert "no Spark master is at" in (await find_absent_master(master) or "")
