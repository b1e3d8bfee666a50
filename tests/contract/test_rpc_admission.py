"""Who is served, and who is believed, on a machine with other users: strangers call and listen."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import grpc
import pytest

from contract.rpc_services import Stock, StockGateway
from stoker.core.errors import HandshakeFailed, RecipientUnreachable
from stoker.rpc import admission
from stoker.rpc.conversation import LARGEST_FRAME
from stoker.rpc.grpc_transport import GrpcRpcService, open_grpc
from stoker.security.cluster_secret import ClusterSecret

OURS = ClusterSecret(b"o" * 32)
FOREIGN = ClusterSecret(b"f" * 32)
SECONDS = timedelta(seconds=5)
METHODS = ("Converse", "Call", "Hold")


@asynccontextmanager
async def service(secret: ClusterSecret | None, **more: Any) -> AsyncIterator[GrpcRpcService]:
    opened = await open_grpc("127.0.0.1", secret=secret, **more)
    try:
        yield opened
    finally:
        await opened.close()


class Impostor:
    """Listens where a process has been, answers every stream, and keeps what it hears."""

    def __init__(self, answer: Any = None) -> None:
        self.heard: list[bytes] = []
        self.called: list[str] = []
        self._answer = answer

    def handler(self) -> Any:
        def method(name: str) -> Any:
            async def listen(_requests: Any, context: Any) -> None:
                self.called.append(name)
                given = dict(context.invocation_metadata())
                await context.send_initial_metadata(self._answer(given) if self._answer else ())
                while (message := await context.read()) is not grpc.aio.EOF:
                    self.heard.append(message)
                    await context.write(b"yes, go on")

            return grpc.stream_stream_rpc_method_handler(listen)

        return grpc.method_handlers_generic_handler(
            "stoker.Rpc", {name: method(name) for name in METHODS}
        )


@asynccontextmanager
async def listening(impostor: Impostor, port: int = 0) -> AsyncIterator[str]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((impostor.handler(),))
    chosen = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield f"grpc://127.0.0.1:{chosen}"
    finally:
        await server.stop(0)


@pytest.mark.parametrize("stranger", [None, FOREIGN], ids=["without secret", "other cluster"])
async def test_a_stranger_is_refused_before_anything_is_read(
    stranger: ClusterSecret | None,
) -> None:
    async with service(OURS) as inside, service(stranger) as outside:
        stock = Stock()
        async with inside.running(stock) as address:
            with pytest.raises((HandshakeFailed, RecipientUnreachable), match="secret"):
                await outside.connect(address, StockGateway, timeout=SECONDS)
            with pytest.raises((HandshakeFailed, RecipientUnreachable), match="secret"):
                await outside.reach(address, StockGateway, timeout=SECONDS).echo(
                    bytes(LARGEST_FRAME * 2)
                )
            assert stock.turns == 0


@pytest.mark.parametrize("method", METHODS)
async def test_no_method_answers_a_caller_without_proof(method: str) -> None:
    async with service(OURS) as inside, inside.running(Stock()) as address:
        place = address.removeprefix("grpc://").partition("/")[0]
        async with grpc.aio.insecure_channel(place) as channel:
            for metadata in ((), ((admission._CHALLENGE, "ab" * 16),)):
                call = channel.stream_stream(f"/stoker.Rpc/{method}")(metadata=metadata)
                with suppress(asyncio.InvalidStateError):
                    await call.write(b"x" * 32)
                async with asyncio.timeout(5):
                    with pytest.raises(grpc.aio.AioRpcError) as refused:
                        await call.read()
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_caller_that_never_proves_itself_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_PATIENCE_SECONDS", 0.05)
    async with service(OURS) as inside:
        place = inside.address.removeprefix("grpc://")
        async with grpc.aio.insecure_channel(place) as channel:
            call = channel.stream_stream("/stoker.Rpc/Converse")(
                metadata=((admission._CHALLENGE, "ab" * 16),)
            )
            async with asyncio.timeout(5):
                assert await call.code() is grpc.StatusCode.UNAUTHENTICATED


def _silent(_given: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return ()


def _reflected(given: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Sends the caller's own challenge back, and something in place of a proof."""
    challenge = given[admission._CHALLENGE]
    return ((admission._CHALLENGE, challenge), (admission._PROOF, "00" * 32))


@pytest.mark.parametrize("answer", [_silent, _reflected])
async def test_an_impostor_at_the_address_of_a_process_hears_nothing(answer: Any) -> None:
    impostor = Impostor(answer)
    async with service(OURS) as caller, listening(impostor) as address:
        with pytest.raises(RecipientUnreachable, match="does not know the secret"):
            await caller.connect(f"{address}/stock", StockGateway, timeout=SECONDS)
        stock = caller.reach(f"{address}/stock", StockGateway, timeout=SECONDS)
        with pytest.raises(RecipientUnreachable, match="does not know the secret"):
            await stock.echo(bytes(LARGEST_FRAME * 2))
        async with asyncio.timeout(5):
            await caller.wait_until_gone(f"{address}/stock")
    assert set(impostor.called) == set(METHODS)
    assert impostor.heard == []


async def test_proofs_cannot_be_passed_on_from_another_address() -> None:
    """The impostor asks the true process for the proof that it cannot make itself."""
    async with service(OURS) as true, service(OURS) as caller:
        place = true.address.removeprefix("grpc://")
        async with grpc.aio.insecure_channel(place) as channel:
            relayed: list[Any] = []

            class Relay(Impostor):
                def handler(self) -> Any:
                    async def listen(_requests: Any, context: Any) -> None:
                        given = tuple(context.invocation_metadata())
                        onward = channel.stream_stream("/stoker.Rpc/Converse")(
                            metadata=tuple(each for each in given if each[0].startswith("stoker-"))
                        )
                        proof = tuple(await onward.initial_metadata())
                        relayed.append(dict(proof))
                        await context.send_initial_metadata(proof)
                        self.heard.append(await context.read())

                    return grpc.method_handlers_generic_handler(
                        "stoker.Rpc", {"Converse": grpc.stream_stream_rpc_method_handler(listen)}
                    )

            relay = Relay()
            async with listening(relay) as address:
                with pytest.raises(RecipientUnreachable, match="does not know the secret"):
                    await caller.connect(f"{address}/stock", StockGateway, timeout=SECONDS)
            assert len(relayed[0][admission._PROOF]) == 64
            assert all(message is grpc.aio.EOF for message in relay.heard)


async def test_nothing_is_called_beyond_loopback_without_tls() -> None:
    async with service(OURS) as caller:
        with pytest.raises(RecipientUnreachable, match=r"is not on this machine.*ssl\.internal"):
            await caller.connect("grpc://192.0.2.7:4711/stock", StockGateway, timeout=SECONDS)
        with pytest.raises(RecipientUnreachable, match="is not on this machine"):
            await caller.connect("grpc://host.example:4711/stock", StockGateway, timeout=SECONDS)


async def test_localhost_means_the_address_at_which_processes_listen() -> None:
    """Another user can listen on the same port of ::1."""
    async with service(OURS, advertised_host="localhost") as called, service(OURS) as caller:
        port = int(called.address.rpartition(":")[2])
        with socket.socket(socket.AF_INET6) as other:
            with suppress(OSError):
                other.bind(("::1", port))
                other.listen()
            async with called.running(Stock()) as address:
                stock = await caller.connect(address, StockGateway, timeout=SECONDS)
                assert await stock.items() == []
