"""A master that starts task executors on demand: real processes and RPC, a fake engine."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from builders import build_graph, eventually
from stoker.client.asynchronous import AsyncClient
from stoker.config.load import configuration_from
from stoker.config.options import ALL
from stoker.config.sources import settings_on_command_line
from stoker.config.tree import OptionTree
from stoker.core.graph import (
    JobGraph,
    ResourceProfile,
    RestartPolicy,
)
from stoker.core.ids import Ids, JobId, ResourceId
from stoker.core.states import ExecutionState, JobStatus
from stoker.osproc.process_tree import start_time
from stoker.processes.local import provider as local_provider
from stoker.processes.master import running_master

PATIENCE = 60.0
LIGHT = str(Path(__file__).with_name("light_executor.py"))
SETTINGS = {
    "rest.bind-port": "0",
    "resourcemanager.provider": "local-process",
    "resourcemanager.local-process.max-task-executors": "1",
    "resourcemanager.check-interval": "200 ms",
    "taskmanager.numberOfTaskSlots": "1",
    "slot.request.timeout": "3 s",
    "task.death-grace": "100 ms",
    "queues.running-jobs": "nightly:1",
}


def graph(seconds: float = 0.1, **more: object) -> JobGraph:
    return build_graph(job_id=Ids().job(), configuration={"fake.seconds": str(seconds)}, **more)


async def is_running(client: AsyncClient, job_id: JobId) -> bool:
    """Whether the task runs; no regions are shown before the job master has started."""
    regions = (await client.job(job_id)).regions
    return [region.current.state for region in regions] == [ExecutionState.RUNNING]


class Watched:
    """Process ids of all task executors that the master has had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pids: set[int] = set()

    def look(self) -> list[int]:
        """Process ids of the executors that run now."""
        marker = str(self.folder).encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if marker in words and b"task-executor" in words:
                    self.pids.add(int(entry.name))
        return [pid for pid in sorted(self.pids) if start_time(pid) is not None]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


@pytest.fixture
def idle_timeout() -> str:
    """How long a task executor may be idle before it is released."""
    return "1 s"


@pytest.fixture
async def client(
    watched: Watched, idle_timeout: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AsyncClient]:
    original = local_provider._command

    def light_command(*arguments: object, **named: object) -> list[str]:
        python, _dash_m, _module, *rest = original(*arguments, **named)  # type: ignore[arg-type]
        return [python, LIGHT, *rest]

    monkeypatch.setattr(local_provider, "_command", light_command)
    settings = SETTINGS | {
        "resourcemanager.taskmanager-timeout": idle_timeout,
        "high-availability.storageDir": str(watched.folder / "storage"),
        "process.working-dir": str(watched.folder / "work"),
        "process.log-dir": str(watched.folder / "log"),
    }
    texts = [f"{key}={value}" for key, value in settings.items()]
    configuration = configuration_from(OptionTree(ALL), settings_on_command_line(texts))
    async with running_master(configuration) as master, AsyncClient(master.rest_url) as client:
        yield client
    assert watched.look() == [], "no task executor outlives the master"


@pytest.mark.timeout(240)
async def test_executors_are_started_when_needed_and_released_afterwards(
    client: AsyncClient, watched: Watched
) -> None:
    """Idle executors end after their timeout (RM-18, SM-11, SM-13)."""
    assert watched.look() == []
    first = await client.submit(graph(seconds=2, queue="nightly"))
    second = await client.submit(graph(queue="nightly"))
    words = (await client.job(second.job_id)).waiting or ""
    assert "queue nightly is at its limit of 1 running job" in words
    [nightly] = [queue for queue in await client.queues() if queue.name == "nightly"]
    assert (nightly.running, nightly.max_running, nightly.waiting) == (1, 1, [second.job_id])
    for submitted in (first, second):
        assert await client.wait(submitted.job_id) is JobStatus.FINISHED

    async def all_gone() -> bool:
        return watched.look() == [] and (await client.overview()).taskmanagers == 0

    await eventually(all_gone, seconds=PATIENCE)
    assert len(watched.pids) >= 1
    third = await client.submit(graph())
    assert await client.wait(third.job_id) is JobStatus.FINISHED


@pytest.mark.timeout(240)
async def test_a_killed_executor_is_noticed_and_replaced(
    client: AsyncClient, watched: Watched
) -> None:
    """The job restarts on the new executor (RM-12, RM-18)."""
    again = RestartPolicy(strategy="fixed-delay", attempts=5, delay_seconds=0.1)
    submitted = await client.submit(graph(seconds=3, restart=again))

    async def runs() -> bool:
        return await is_running(client, submitted.job_id)

    await eventually(runs, seconds=PATIENCE)
    [victim] = watched.look()
    os.kill(victim, signal.SIGKILL)
    assert await client.wait(submitted.job_id) is JobStatus.FINISHED
    assert len(watched.pids | set(watched.look())) == 2
    assert len((await client.job(submitted.job_id)).failures) == 1


@pytest.mark.timeout(240)
async def test_a_job_whose_slots_cannot_exist_fails_with_the_reason(
    client: AsyncClient, watched: Watched
) -> None:
    """Waiting would not help (POOL-06, FAULT-12)."""
    submitted = await client.submit(graph(profile=ResourceProfile(cores=4096)))
    assert await client.wait(submitted.job_id) is JobStatus.FAILED
    details = await client.job(submitted.job_id)
    assert "needs 1 more slot of 4096 cores" in details.failures[0].failure.message
    assert watched.look() == [], "no task executor was started for it"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("idle_timeout", ["1 h"])
async def test_a_drained_executor_finishes_its_task_and_stops(
    client: AsyncClient, watched: Watched
) -> None:
    submitted = await client.submit(graph(seconds=3))

    async def runs() -> bool:
        return await is_running(client, submitted.job_id)

    await eventually(runs, seconds=PATIENCE)
    [executor] = await client.task_executors()
    await client.drain(ResourceId(executor.id))
    assert await client.wait(submitted.job_id) is JobStatus.FINISHED
    assert (await client.job(submitted.job_id)).failures == ()

    async def gone() -> bool:
        return watched.look() == []

    await eventually(gone, seconds=PATIENCE)
