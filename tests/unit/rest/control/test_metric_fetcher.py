"""How often task executors are asked for their metrics."""

import asyncio
from datetime import timedelta

from builders import virtual
from stoker.core.errors import RecipientUnreachable
from stoker.core.ids import InstanceId, ResourceId
from stoker.gateways.inspection import InspectionGateway
from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.metrics.registry import MetricFamily
from stoker.rest.control.metric_fetcher import AT_ONCE, MetricFetcher
from stoker.testing.rest import InspectionInMemory


def executor(name: str, instance: str = "1") -> TaskExecutorDetails:
    return TaskExecutorDetails(
        resource_id=ResourceId(name),
        instance=InstanceId(f"{name}-{instance}"),
        address=f"mem://{name}/task_executor",
        slots_total=2,
        slots_free=1,
        last_heartbeat=0,
    )


class Processes:
    """Processes that answer after a second; those named in `gone` never do."""

    def __init__(self, *gone: str) -> None:
        self.asked: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self._gone = gone

    async def find(self, address: str) -> InspectionGateway:
        name = address.split("/")[2]
        self.asked.append(name)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(1)
        self.at_once -= 1
        if name in self._gone:
            raise RecipientUnreachable(f"{name} is gone")
        return InspectionInMemory()


@virtual
async def test_requests_within_an_interval_share_one_round() -> None:
    processes, fetcher = Processes(), MetricFetcher(timedelta(seconds=10))
    both = [executor("a"), executor("b")]
    answers = await asyncio.gather(*(fetcher.fetch(both, processes.find) for _ in range(5)))
    await asyncio.sleep(8)
    await fetcher.fetch(both, processes.find)
    assert sorted(processes.asked) == ["a", "b"]
    assert all(set(answer) == {"a", "b"} for answer in answers)
    await asyncio.sleep(2)
    await fetcher.fetch(both, processes.find)
    assert sorted(processes.asked) == ["a", "a", "b", "b"]


@virtual
async def test_a_task_executor_that_is_new_or_was_restarted_is_asked_at_once() -> None:
    processes, fetcher = Processes(), MetricFetcher()
    await fetcher.fetch([executor("a")], processes.find)
    dumps = await fetcher.fetch([executor("a", "2"), executor("b")], processes.find)
    assert processes.asked == ["a", "a", "b"]
    assert set(dumps) == {"a", "b"}
    assert set(await fetcher.fetch([executor("b")], processes.find)) == {"b"}


@virtual
async def test_one_that_is_gone_hides_no_other_and_is_asked_once_a_round() -> None:
    processes, fetcher = Processes("b"), MetricFetcher()
    known = [executor("a"), executor("b")]
    for _ in range(3):
        dumps = await fetcher.fetch(known, processes.find)
        assert set(dumps) == {"a"}
        assert isinstance(dumps[ResourceId("a")][0], MetricFamily)
    assert processes.asked == ["a", "b"]


@virtual
async def test_an_interval_of_zero_asks_nobody() -> None:
    processes, fetcher = Processes(), MetricFetcher(timedelta(0))
    assert await fetcher.fetch([executor("a")], processes.find) == {}
    assert processes.asked == []


@virtual
async def test_a_large_cluster_is_asked_in_turns() -> None:
    processes, fetcher = Processes(), MetricFetcher()
    many = [executor(str(number)) for number in range(100)]
    assert len(await fetcher.fetch(many, processes.find)) == 100
    assert processes.most_at_once == AT_ONCE
