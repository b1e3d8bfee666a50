"""The shutdown of a whole cluster of real processes, over the embedded coordinator."""

from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path

import msgspec
import pytest

from builders import wait_until
from integration.processes.separate_processes import PATIENCE, process_of, url_of
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import StokerError, Unavailable
from stoker.core.failpoints import KILLED
from stoker.core.graph import JobGraph, ResourceProfile
from stoker.core.states import JobStatus
from stoker.testing.sample_jobs import new_graph

WITHOUT_WARM_SPARK = {"taskmanager.engines": "classic", "taskmanager.classic.warm-drivers": "0"}
"""A task executor with these settings starts no Spark, so it is ready at once."""


def lines_with(text: str, log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if text in line]


def wait_for_executors(client: BlockingClient, number: int) -> None:
    wait_until(
        lambda: client.overview().taskmanagers >= number,
        f"a leader knows {number} task executors",
        PATIENCE,
        despite=(StokerError,),
    )


def oversized_job() -> JobGraph:
    """A job that waits for a slot larger than any machine."""
    return msgspec.structs.replace(new_graph(), profile=ResourceProfile(cores=1e6))


@pytest.mark.parametrize("failpoint", ["", "shutdown.after-record"])
def test_a_cluster_shuts_down_with_its_jobs_and_a_new_one_knows_their_results(
    tmp_path: Path, failpoint: str
) -> None:
    """The standby takes the request; the leader may die during it (ENTRY-04, ENTRY-07, RUN-05)."""
    with ExitStack() as stack:
        leader = stack.enter_context(process_of(tmp_path, "master", "one", failpoint=failpoint))
        first = url_of(tmp_path, "one", leader)
        wait_for_executors(stack.enter_context(BlockingClient(first)), 0)
        standby = stack.enter_context(process_of(tmp_path, "master", "two"))
        executor = stack.enter_context(
            process_of(tmp_path, "task-executor", "worker", settings=WITHOUT_WARM_SPARK)
        )
        second = url_of(tmp_path, "two", standby)
        client = stack.enter_context(BlockingClient(second))
        wait_for_executors(client, 1)
        job = client.submit(oversized_job()).job_id
        # If the leader dies before it answers, the cluster may be gone when the client retries.
        impatient = stack.enter_context(BlockingClient(second, ClientOptions(retries=3)))
        with suppress(Unavailable) if failpoint else nullcontext():
            impatient.shut_down()
        assert leader.wait(PATIENCE) == (KILLED if failpoint else 0)
        assert standby.wait(PATIENCE) == 0
        assert executor.wait(PATIENCE) == 0
        (line,) = lines_with("task executor worker serves", tmp_path / "worker.log")
        assert line.endswith("[component=taskexecutor task_executor=worker]")
        left = {path.name for path in (tmp_path / "work").glob("two/*")}
        assert left <= {"log"}, "no process returns under this name"
    with (
        process_of(tmp_path, "master", "one") as again,
        BlockingClient(url_of(tmp_path, "one", again)) as client,
    ):
        assert client.status(job) is JobStatus.CANCELED
        assert client.overview().jobs_running == 0
        assert again.poll() is None
