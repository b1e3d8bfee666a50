"""The contract of the start, stop and absence of endpoints, run on every RpcService."""

import asyncio
from datetime import timedelta

import pytest

from contract.rpc_services import KINDS, Stock, StockGateway, services, unused_address
from stoker.core.errors import RecipientUnreachable
from stoker.core.ids import SessionId
from stoker.core.values import FencingToken


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
async def open_service(kind):
    async with services(kind) as opener:
        yield opener


async def run_until(service, endpoint, end):
    async with service.running(endpoint):
        await end.wait()


async def test_work_scheduled_under_an_old_token_does_not_run(open_service):
    """Such work belongs to a leadership that has ended (RPC-04)."""
    service = await open_service()
    done = []
    endpoint = Stock(token=FencingToken(epoch=1, session=SessionId("a")))
    async with service.running(endpoint):
        endpoint.schedule(timedelta(0), lambda: done.append("old"))
        endpoint.token = FencingToken(epoch=2, session=SessionId("b"))
        endpoint.schedule(timedelta(0), lambda: done.append("new"))
        await asyncio.sleep(0.01)
    assert done == ["new"]


async def test_scheduled_work_does_not_run_after_the_end_or_when_cancelled(open_service):
    """The end is that of its endpoint (X-RPC-07)."""
    service = await open_service()
    done = []
    endpoint = Stock()
    async with service.running(endpoint):
        endpoint.schedule(timedelta(0), lambda: done.append("cancelled")).cancel()
        await asyncio.sleep(0.01)
        endpoint.schedule(timedelta(milliseconds=5), lambda: done.append("late"))
    await asyncio.sleep(0.02)
    assert done == []
    with pytest.raises(RuntimeError):
        endpoint.schedule(timedelta(0), lambda: None)


async def test_a_failing_start_hook_fails_the_start(open_service):
    """The caller of the start gets the error of the hook (RPC-05)."""
    service = await open_service()
    endpoint = Stock()
    endpoint.fail_at = "start"
    with pytest.raises(LookupError, match="the start hook failed"):
        async with service.running(endpoint):
            pytest.fail("the body must not run")
    assert endpoint.hooks == ["start"]
    with pytest.raises(RecipientUnreachable):
        await service.connect(f"{service.address}/stock", StockGateway)


async def test_termination_waits_for_the_stop_hook(open_service):
    """The endpoint has ended only when its hook has (RPC-06)."""
    service, end = await open_service(), asyncio.Event()
    endpoint = Stock()
    endpoint.stop_gate = asyncio.Event()
    running = asyncio.create_task(run_until(service, endpoint, end))
    await asyncio.sleep(0)
    end.set()
    done, _ = await asyncio.wait({running}, timeout=0.02)
    assert not done
    assert endpoint.hooks == ["start", "stop"]
    endpoint.stop_gate.set()
    await running


async def test_closing_stops_all_endpoints_even_when_some_fail(open_service):
    """A failing stop hook does not keep the others from running (RPC-11)."""
    service, end = await open_service(), asyncio.Event()
    endpoints = [Stock(f"stock-{number}") for number in range(3)]
    endpoints[1].fail_at = "stop"
    running = [asyncio.create_task(run_until(service, e, end)) for e in endpoints]
    await asyncio.sleep(0)
    with pytest.raises(LookupError, match="the stop hook failed"):
        await service.close()
    assert [e.hooks for e in endpoints] == [["start", "stop"]] * 3
    end.set()
    outcomes = await asyncio.gather(*running, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), LookupError, type(None)]
    with pytest.raises(RuntimeError, match="closed"):
        async with service.running(Stock()):
            pass


async def test_the_stop_hook_runs_once_for_any_number_of_stops(open_service):
    """This holds for concurrent stops, too (X-RPC-01)."""
    service = await open_service()
    endpoint = Stock()
    async with service.running(endpoint):
        await asyncio.gather(service.close(), service.close())
        await service.close()
    assert endpoint.hooks == ["start", "stop"]


async def test_a_failing_stop_hook_fails_the_termination(open_service):
    """Whoever ends the endpoint gets the error (X-RPC-02)."""
    service = await open_service()
    endpoint = Stock()
    endpoint.fail_at = "stop"
    with pytest.raises(LookupError, match="the stop hook failed"):
        async with service.running(endpoint):
            pass


async def test_a_close_during_the_start_hook_still_runs_the_stop_hook(open_service):
    service, end = await open_service(), asyncio.Event()
    endpoint = Stock()
    endpoint.start_gate = asyncio.Event()
    running = asyncio.create_task(run_until(service, endpoint, end))
    await asyncio.sleep(0)
    closing = asyncio.create_task(service.close())
    await asyncio.sleep(0)
    endpoint.start_gate.set()
    with pytest.raises(RecipientUnreachable):
        await running
    await closing
    assert endpoint.hooks == ["start", "stop"]


async def test_a_name_is_taken_while_in_use_and_free_afterwards(open_service):
    """Calls then reach the second endpoint of that name (X-RPC-06)."""
    service = await open_service()
    async with service.running(Stock()):
        with pytest.raises(ValueError, match="an endpoint named stock is running"):
            async with service.running(Stock()):
                pass
    second = Stock()
    async with service.running(second) as address:
        stock = await service.connect(address, StockGateway)
        assert await stock.items() == []


async def test_the_wait_for_an_absent_endpoint_ends_at_once(kind, open_service):
    here, there = await open_service(), await open_service()
    async with asyncio.timeout(3):
        await here.wait_until_gone(f"{unused_address(kind)}/stock")
        await here.wait_until_gone(f"{there.address}/stock")


@pytest.mark.parametrize("whole_service", [False, True])
async def test_the_end_of_an_endpoint_is_noticed_at_once(open_service, whole_service):
    here, there = await open_service(), await open_service()
    end, endpoint = asyncio.Event(), Stock()
    endpoint.stop_gate = asyncio.Event()
    running = asyncio.create_task(run_until(there, endpoint, end))
    gone = asyncio.create_task(here.wait_until_gone(f"{there.address}/stock"))
    done, _ = await asyncio.wait({gone}, timeout=0.05)
    assert not done
    closing = asyncio.create_task(there.close()) if whole_service else None
    end.set()
    # The wait ends before the stop hook does: the endpoint no longer answers calls.
    async with asyncio.timeout(3):
        await gone
    endpoint.stop_gate.set()
    await running
    if closing:
        await closing


async def test_a_wait_for_the_end_of_an_endpoint_can_be_cancelled(open_service):
    here, there = await open_service(), await open_service()
    async with there.running(Stock()) as address:
        waiting = asyncio.create_task(here.wait_until_gone(address))
        await asyncio.wait({waiting}, timeout=0.02)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_cancelling_one_wait_does_not_end_the_others(open_service):
    here, there = await open_service(), await open_service()
    async with there.running(Stock()) as address:
        waits = [asyncio.create_task(here.wait_until_gone(address)) for _ in range(3)]
        await asyncio.wait(waits, timeout=0.05)
        waits[0].cancel()
        done, _ = await asyncio.wait(waits, timeout=0.05)
        assert done == {waits[0]}
    async with asyncio.timeout(3):
        await asyncio.gather(*waits[1:])
        async with there.running(Stock()) as address:
            again = asyncio.create_task(here.wait_until_gone(address))
            done, _ = await asyncio.wait({again}, timeout=0.05)
            assert not done, "a new endpoint at the address is waited for anew"
        await again


async def test_a_peer_connected_without_a_handshake_is_called_normally(open_service):
    here, there = await open_service(), await open_service()
    async with there.running(Stock()) as address:
        assert await here.reach(address, StockGateway).items() == []
    with pytest.raises(RecipientUnreachable):
        await here.reach(address, StockGateway).items()
