"""Those who hand in jobs go before those who ask for lists."""

import asyncio
from typing import Any

import msgspec
import pytest

from contract.rest_cluster import DispatcherInMemory, Master, new_graph
from stoker.core.graph import JobGraph
from stoker.core.ids import SessionId
from stoker.gateways.dispatcher import JobsSince, Submitted
from stoker.rest.job_list.fast_paths import Answer, answer_in_pieces
from stoker.rest.job_list.precedence import LONGEST_WAIT_SECONDS, Precedence
from stoker.testing.virtual_time import run_virtual


async def waits(precedence: Precedence) -> float:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    await precedence.give_way(precedence.patience())
    return loop.time() - begin


def test_nobody_waits_for_nobody() -> None:
    assert run_virtual(waits(Precedence())) == 0


def test_those_who_ask_wait_until_the_last_one_has_passed() -> None:
    async def scenario() -> None:
        precedence = Precedence()

        async def pass_first(seconds: float) -> None:
            with precedence.first():
                await asyncio.sleep(seconds)

        passing = [asyncio.create_task(pass_first(each)) for each in (0.005, 0.011)]
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(waits(precedence)) for _ in range(3)]
        assert await asyncio.gather(*waiting) == pytest.approx([0.011] * 3)
        assert await waits(precedence) == 0
        await asyncio.gather(*passing)

    run_virtual(scenario())


def test_they_do_not_wait_for_ever() -> None:
    async def scenario() -> None:
        precedence = Precedence()
        with precedence.first():
            assert await waits(precedence) == pytest.approx(LONGEST_WAIT_SECONDS)
            # What one request waits is limited as a whole, however many pieces its answer has.
            patience = precedence.patience()
            await precedence.give_way(patience)
            before = asyncio.get_running_loop().time()
            await precedence.give_way(patience)
            assert asyncio.get_running_loop().time() == before

    run_virtual(scenario())


def test_one_that_failed_is_waited_for_no_more() -> None:
    async def scenario() -> None:
        precedence = Precedence()
        with pytest.raises(ValueError), precedence.first():
            raise ValueError
        assert await waits(precedence) == 0

    run_virtual(scenario())


class Watched(DispatcherInMemory):
    """Takes a moment to accept, and notes what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []
        self.under_way = asyncio.Event()

    async def submit_job(self, graph: JobGraph) -> Submitted:
        self.under_way.set()
        await asyncio.sleep(0.005)
        self.order.append("accepted")
        return await super().submit_job(graph)

    async def jobs_since(
        self, leader: SessionId | None, revision: int, live_revision: int = -1
    ) -> JobsSince:
        self.order.append("listed")
        return await super().jobs_since(leader, revision, live_revision)


async def test_a_list_is_not_made_while_a_job_is_being_handed_in() -> None:
    dispatcher = Watched()
    master = Master(dispatcher=dispatcher)
    async with master.in_process() as http:
        graph = msgspec.json.encode(new_graph())
        handing_in = asyncio.create_task(
            http.post("/jobs", files={"graph": (None, graph, "application/json")})
        )
        await dispatcher.under_way.wait()
        assert (await http.get("/jobs/overview")).status_code == 200
        assert (await handing_in).status_code == 202
    assert dispatcher.order == ["accepted", "listed"]


def test_a_long_answer_lets_jobs_pass_between_its_pieces() -> None:
    async def scenario() -> None:
        precedence = Precedence()
        begin = asyncio.get_running_loop().time()
        sent: list[tuple[bytes, float]] = []

        async def send(message: Any) -> None:
            sent.append((message.get("body", b""), asyncio.get_running_loop().time() - begin))
            if message.get("body") == b"one":
                handing_in.append(asyncio.create_task(hand_in()))
                await asyncio.sleep(0)

        async def hand_in() -> None:
            with precedence.first():
                await asyncio.sleep(0.01)

        handing_in: list[asyncio.Task[None]] = []
        await answer_in_pieces(Answer(200, [b"one", b"two", b"three"]), send, precedence)
        pieces = {body: at for body, at in sent if body}
        assert pieces[b"one"] == 0
        assert pieces[b"two"] == pytest.approx(0.01)

    run_virtual(scenario())


def test_others_have_their_turn_between_two_pieces_of_an_answer() -> None:
    """Who comes to hand in a job must be heard before anybody can give way."""
    seen: list[str] = []

    async def send(message: Any) -> None:
        if "body" in message:
            seen.append(message["body"].decode())
            asyncio.get_running_loop().call_soon(seen.append, "another")

    async def scenario() -> None:
        await answer_in_pieces(Answer(200, [b"one", b"two", b"three"]), send, Precedence())

    run_virtual(scenario())
    assert seen[:5] == ["one", "another", "two", "another", "three"]
