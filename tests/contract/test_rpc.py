"""The contract of calls, run on every RpcService."""

import asyncio
import contextvars
import threading
from datetime import timedelta

import pytest

from contract.rpc_services import (
    ERRORS,
    KINDS,
    Item,
    NoSuchItem,
    OtherGateway,
    ReadingGateway,
    Stock,
    StockGateway,
    services,
    unused_address,
)
from stoker.core.errors import (
    CallTimedOut,
    EndpointNotStarted,
    FencingTokenMismatch,
    HandshakeFailed,
    InvalidInput,
    RecipientUnreachable,
    RemoteError,
    StokerError,
    TooLarge,
)
from stoker.core.ids import SessionId
from stoker.core.options import ByteSize
from stoker.core.values import FencingToken
from stoker.rpc.options import RpcOptions
from stoker.rpc.service import PROTOCOL_VERSION

BRIEFLY = timedelta(milliseconds=80)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
async def open_service(kind):
    async with services(kind) as opener:
        yield opener


@pytest.fixture(params=("each other", "itself"))
async def pair(request, open_service):
    """Two services that call each other, or one that calls itself."""
    here = await open_service()
    return here, here if request.param == "itself" else await open_service()


async def test_values_arrive_as_they_were_sent(pair):
    here, there = pair
    async with there.running(Stock()) as address:
        assert address == f"{there.address}/stock"
        stock = await here.connect(address, StockGateway)
        item = Item(name="coal", weight=timedelta(seconds=3))
        assert await stock.add(item) == 1
        assert await stock.add(item=item, times=2) == 3
        assert await stock.items() == [item] * 3
        assert "StockGateway" in repr(stock)


async def test_a_service_can_call_its_own_endpoints(open_service):
    service = await open_service()
    async with service.running(Stock()) as address:
        stock = await service.connect(address, StockGateway)
        assert await stock.echo(b"me") == b"me"


async def test_concurrent_calls_run_one_after_another(pair):
    """An endpoint needs no locks (RPC-01)."""
    here, there = pair
    endpoint = Stock()
    async with there.running(endpoint) as address:
        stock = await here.connect(address, StockGateway)
        counts = await asyncio.gather(*(stock.add(Item(name=str(i))) for i in range(20)))
    assert sorted(counts) == list(range(1, 21))
    assert endpoint.most_turns_at_once == 1


async def test_state_touched_from_another_thread_is_detected(open_service):
    """Only the loop of the endpoint may touch its state (RPC-01)."""
    service = await open_service()
    endpoint, found = Stock(), []

    def touch():
        try:
            endpoint.add(Item(name="x"))
        except RuntimeError as error:
            found.append(str(error))

    async with service.running(endpoint):
        thread = threading.Thread(target=touch)
        thread.start()
        thread.join()
        endpoint.check_turn()
    assert found == ["endpoint stock was touched from outside its event loop"]
    assert endpoint.stored == []
    with pytest.raises(RuntimeError, match="not running"):
        endpoint.check_turn()


async def test_a_call_before_the_end_of_the_start_is_refused_and_succeeds_afterwards(pair):
    """No method sees a half-started endpoint (RPC-02)."""
    here, there = pair
    endpoint = Stock()
    endpoint.start_gate = asyncio.Event()

    async def run(started, end):
        async with there.running(endpoint):
            started.set()
            await end.wait()

    started, end = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(run(started, end))
    await asyncio.sleep(0)
    stock = await here.connect(f"{there.address}/stock", StockGateway)
    with pytest.raises(EndpointNotStarted):
        await stock.items()
    endpoint.start_gate.set()
    await started.wait()
    assert await stock.items() == []
    end.set()
    await running


TOKEN = FencingToken(epoch=5, session=SessionId("a" * 32))


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        FencingToken(epoch=4, session=TOKEN.session),
        FencingToken(epoch=6, session=TOKEN.session),
        FencingToken(epoch=5, session=SessionId("b" * 32)),
    ],
)
async def test_a_call_with_another_token_never_reaches_the_method(pair, wrong):
    """The caller gets FencingTokenMismatch (RPC-03)."""
    here, there = pair
    endpoint = Stock(token=TOKEN)
    async with there.running(endpoint) as address:
        stale = await here.connect(address, StockGateway, token=wrong)
        with pytest.raises(FencingTokenMismatch, match="5:aaaaaaaa"):
            await stale.add(Item(name="x"))
        assert endpoint.stored == []
        current = await here.connect(address, StockGateway, token=TOKEN)
        assert await current.add(Item(name="x")) == 1


async def test_an_endpoint_without_token_accepts_any_token(pair):
    """An endpoint without a token has no leadership to fence (RPC-03)."""
    here, there = pair
    async with there.running(Stock()) as address:
        stock = await here.connect(address, StockGateway, token=TOKEN)
        assert await stock.items() == []


async def test_stoker_errors_keep_type_message_and_facts(pair):
    """Callers can handle such an error as if it had been raised locally (RPC-07)."""
    here, there = pair
    async with there.running(Stock()) as address:
        stock = await here.connect(address, StockGateway)
        with pytest.raises(NoSuchItem, match=r"^no item 7$") as caught:
            await stock.raise_error("stoker")
        assert caught.value.facts == {"number": 7, "near": [1, 2]}
        with pytest.raises(StokerError, match=r"^plain words$") as caught:
            await stock.raise_error("plain")
        assert type(caught.value) is StokerError


@pytest.mark.parametrize("name", ["built-in", "file", "key"])
async def test_built_in_errors_keep_type_and_message(pair, name):
    """Every caller has the classes of built-in errors (RPC-07)."""
    here, there = pair
    async with there.running(Stock()) as address:
        stock = await here.connect(address, StockGateway)
        with pytest.raises(type(ERRORS[name])) as caught:
            await stock.raise_error(name)
        assert str(caught.value) == str(ERRORS[name])
        assert "raise_error" in caught.value.__notes__[0]


async def test_foreign_errors_arrive_as_remote_errors_with_their_traceback(pair):
    """The caller may not have the class of such an error (RPC-07)."""
    here, there = pair
    async with there.running(Stock()) as address:
        stock = await here.connect(address, StockGateway)
        with pytest.raises(RemoteError, match="StrangeError: odd") as caught:
            await stock.raise_error("strange")
        assert caught.value.facts["type"].endswith("StrangeError")
        assert "raise ERRORS[kind]" in caught.value.facts["traceback"]


async def test_a_call_in_flight_fails_at_once_when_the_endpoint_stops(pair):
    """The call does not wait for its timeout (RPC-08)."""
    here, there = pair
    endpoint = Stock()
    async with there.running(endpoint) as address:
        stock = await here.connect(address, StockGateway, timeout=timedelta(hours=1))
        call = asyncio.create_task(stock.wait())
        await endpoint.waiting.wait()
    with pytest.raises(RecipientUnreachable, match="stock"):
        await call
    assert endpoint.hooks == ["start", "waited", "stop"]
    with pytest.raises(RecipientUnreachable):
        await stock.items()


@pytest.mark.parametrize("closing", ["callee", "caller"])
async def test_a_call_in_flight_fails_at_once_when_either_service_closes(pair, closing):
    """The call does not wait for its timeout (RPC-08)."""
    here, there = pair
    endpoint = Stock()
    async with there.running(endpoint) as address:
        stock = await here.connect(address, StockGateway, timeout=timedelta(hours=1))
        call = asyncio.create_task(stock.wait())
        await endpoint.waiting.wait()
        await (there if closing == "callee" else here).close()
        with pytest.raises(RecipientUnreachable):
            await call
        with pytest.raises(RecipientUnreachable):
            await stock.items()


async def test_a_call_that_is_never_answered_times_out_with_method_recipient_and_call_site(pair):
    """The error says which call it was and where it was made (RPC-09)."""
    here, there = pair
    endpoint = Stock()
    async with there.running(endpoint) as address:
        stock = await here.connect(address, StockGateway, timeout=BRIEFLY)
        with pytest.raises(CallTimedOut) as caught:
            await stock.wait()
        for part in ("StockGateway.wait", address, "test_rpc.py:", "0.08 s"):
            assert part in str(caught.value)
        # The call continues without its caller.
        assert "waited" not in endpoint.hooks


async def test_the_callee_knows_how_long_its_caller_waits(pair):
    here, there = pair
    async with there.running(Stock()) as address:
        stock = await here.connect(address, StockGateway, timeout=timedelta(seconds=40))
        assert 39 < await stock.seconds_left() <= 40


async def test_the_default_timeout_is_an_option(open_service):
    here, there = await open_service(options=RpcOptions(ask_timeout=BRIEFLY)), await open_service()
    async with there.running(Stock()) as address:
        stock = await here.connect(address, StockGateway)
        with pytest.raises(CallTimedOut, match=r"0\.08 s"):
            await stock.wait()


async def test_peers_of_different_protocol_versions_refuse_each_other(open_service):
    """The handshake fails, before any call (RPC-10)."""
    later = PROTOCOL_VERSION + 1
    here, there = await open_service(), await open_service(protocol_version=later)
    async with there.running(Stock()) as address:
        with pytest.raises(
            HandshakeFailed, match=f"version {later}, the caller {PROTOCOL_VERSION}"
        ):
            await here.connect(address, StockGateway)


async def test_connect_refuses_a_wrong_gateway_and_accepts_a_part_of_the_right_one(pair):
    """A caller may need only some of the methods (RPC-10)."""
    here, there = pair
    async with there.running(Stock()) as address:
        with pytest.raises(HandshakeFailed, match="the caller wants OtherGateway"):
            await here.connect(address, OtherGateway)
        reader = await here.connect(address, ReadingGateway)
        assert await reader.items() == []


async def test_connect_to_an_unused_address_fails(kind, pair):
    """It fails at once; an address without a scheme is refused with the right form (X-RPC-03)."""
    here, there = pair
    for address in (f"{unused_address(kind)}/stock", f"{there.address}/stock"):
        async with asyncio.timeout(3):
            with pytest.raises(RecipientUnreachable):
                await here.connect(address, StockGateway)
    with pytest.raises(InvalidInput, match="grpc://host:port/name"):
        await here.connect("stock", StockGateway)


async def test_requests_and_answers_above_the_frame_limit_fail(open_service):
    """The error names the call and the option; smaller ones still work (X-RPC-04)."""
    options = RpcOptions(frame_size=ByteSize(20_000))
    here, there = await open_service(options=options), await open_service(options=options)
    async with there.running(Stock()) as address:
        stock = await here.connect(address, StockGateway)
        with pytest.raises(TooLarge, match=r"request of StockGateway.echo.*rpc\.framesize"):
            await stock.echo(b"x" * 20_001)
        with pytest.raises(TooLarge, match=r"answer of stock\.echo.*rpc\.framesize"):
            await stock.echo(b"double" + b"x" * 15_000)
        assert await stock.echo(b"x" * 15_000) == b"x" * 15_000


async def test_frames_above_four_megabytes_are_sent(pair):
    """Unless it is raised, gRPC's own limit is four megabytes (X-RPC-04)."""
    here, there = pair
    async with there.running(Stock()) as address:
        stock = await here.connect(address, StockGateway)
        assert len(await stock.echo(b"x" * 9_000_000)) == 9_000_000


async def test_arguments_that_cannot_be_sent_fail_at_the_sender(pair):
    """Missing arguments and those of a wrong type fail there, too (X-RPC-05)."""
    here, there = pair
    async with there.running(Stock()) as address:
        stock = await here.connect(address, StockGateway)
        with pytest.raises(TypeError, match=r"arguments of StockGateway\.echo cannot be sent"):
            await stock.echo(object())
        with pytest.raises(TypeError, match="missing a required argument"):
            await stock.echo()
        with pytest.raises(TypeError, match=r"StockGateway\.echo was called with a wrong value"):
            await stock.echo(3)


async def test_turns_do_not_see_the_context_variables_of_their_callers(pair):
    here, there = pair
    variable = contextvars.ContextVar("variable", default="none")
    seen = []

    class RecordingStock(Stock):
        def items(self):
            seen.append(variable.get())
            return []

    variable.set("callee")
    async with there.running(RecordingStock()) as address:
        stock = await here.connect(address, StockGateway)
        variable.set("caller")
        await stock.items()
    assert seen == ["callee"]
