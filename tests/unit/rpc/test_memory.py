import asyncio
from datetime import timedelta
from typing import Protocol

import pytest

from stoker.core.errors import CallTimedOut, RecipientUnreachable
from stoker.rpc.memory import MemoryNetwork
from stoker.rpc.service import Endpoint
from stoker.testing.virtual_time import run_virtual, virtual_random


class CountingGateway(Protocol):
    async def count(self) -> int: ...

    async def wait(self) -> None: ...


class Counter(Endpoint):
    gateway = CountingGateway

    def __init__(self):
        super().__init__("counter")
        self.counted = 0
        self.hooks = []

    async def on_stop(self):
        self.hooks.append("stop")

    def count(self):
        self.counted += 1
        return self.counted

    async def wait(self):
        await asyncio.Event().wait()


class Slow:
    def __init__(self, *delays):
        self.delays = list(delays)

    def delay(self, source, destination):
        return self.delays.pop(0) if self.delays else 0.0


def now():
    return asyncio.get_running_loop().time()


async def two(network):
    return network.service("a"), network.service("b")


def test_messages_take_the_configured_time():
    async def main():
        network = MemoryNetwork()
        here, there = await two(network)
        async with there.running(Counter()) as address:
            counter = await here.connect(address, CountingGateway)
            network.faults = Slow(2.0, 3.0)
            assert await counter.count() == 1
            assert now() == 5

    run_virtual(main)


@pytest.mark.parametrize(("delays", "counted"), [([None], 0), ([0.0, None], 1), ([99.0], 0)])
def test_a_lost_request_or_answer_runs_into_the_timeout(delays, counted):
    async def main():
        network = MemoryNetwork()
        here, there = await two(network)
        endpoint = Counter()
        async with there.running(endpoint) as address:
            counter = await here.connect(address, CountingGateway, timeout=timedelta(seconds=7))
            network.faults = Slow(*delays)
            with pytest.raises(CallTimedOut):
                await counter.count()
            assert now() == 7
            assert endpoint.counted == counted
            # A late request is carried out although nobody waits any more.
            await asyncio.sleep(100)
            assert endpoint.counted == (1 if 99.0 in delays else counted)

    run_virtual(main)


def test_a_partition_is_silent_until_healed():
    async def main():
        network = MemoryNetwork()
        here, there = await two(network)
        async with there.running(Counter()) as address:
            counter = await here.connect(address, CountingGateway, timeout=timedelta(seconds=7))
            gone = asyncio.create_task(here.wait_until_gone(address))
            network.partition("b", "a")
            with pytest.raises(CallTimedOut):
                await counter.count()
            with pytest.raises(RecipientUnreachable, match="answered within 7 s"):
                await here.connect(address, CountingGateway, timeout=timedelta(seconds=7))
            network.heal()
            assert await counter.count() == 1
            network.partition("a", "b")
        await asyncio.sleep(100)
        assert not gone.done()
        network.heal("a", "b")
        await gone

    run_virtual(main)


def test_a_crash_fails_callers_at_once_and_runs_no_hook():
    async def main():
        network = MemoryNetwork()
        here, there = await two(network)
        endpoint = Counter()
        async with there.running(endpoint) as address:
            counter = await here.connect(address, CountingGateway)
            itself = await there.connect(address, CountingGateway)
            calls = [asyncio.create_task(proxy.wait()) for proxy in (counter, itself)]
            gone = asyncio.create_task(here.wait_until_gone(address))
            await asyncio.sleep(1)
            network.crash("b")
            await gone
            for call in calls:
                with pytest.raises(RecipientUnreachable):
                    await call
            for proxy in (counter, itself):
                with pytest.raises(RecipientUnreachable):
                    await proxy.count()
            assert now() == 1
        assert endpoint.hooks == []

    run_virtual(main)


def test_a_restarted_service_does_not_receive_messages_for_its_previous_instance():
    async def main():
        network = MemoryNetwork()
        here, there = await two(network)
        async with there.running(Counter()) as address:
            counter = await here.connect(address, CountingGateway)
            network.faults = Slow(5.0)
            late = asyncio.create_task(counter.count())
            await asyncio.sleep(1)
            network.crash("b")
            with pytest.raises(RecipientUnreachable):
                await late
        reborn = network.service("b")
        with pytest.raises(ValueError, match="on the network already"):
            network.service("b")
        endpoint = Counter()
        async with reborn.running(endpoint):
            await asyncio.sleep(10)
            assert endpoint.counted == 0
            assert await counter.count() == 1

    run_virtual(main)


def test_a_crash_behind_a_partition_is_not_noticed():
    async def main():
        network = MemoryNetwork()
        here, there = await two(network)
        async with there.running(Counter()) as address:
            counter = await here.connect(address, CountingGateway, timeout=timedelta(seconds=7))
            call = asyncio.create_task(counter.wait())
            await asyncio.sleep(1)
            network.partition("a", "b")
            network.crash("b")
            with pytest.raises(CallTimedOut):
                await call
            assert now() == 7

    run_virtual(main)


def test_a_seeded_run_with_random_delays_repeats_exactly():
    class Chance:
        def delay(self, source, destination):
            random = virtual_random()
            return None if random.random() < 0.1 else random.random()

    async def main():
        network = MemoryNetwork()
        here, there = await two(network)
        history = []
        async with there.running(Counter()) as address:
            counter = await here.connect(address, CountingGateway, timeout=timedelta(seconds=3))
            network.faults = Chance()

            async def call(number):
                try:
                    history.append((number, await counter.count(), now()))
                except CallTimedOut:
                    history.append((number, None, now()))

            await asyncio.gather(*(call(number) for number in range(50)))
        return history

    first, again, other = (run_virtual(main, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
