"""A process dies at a failpoint, as if by kill -9, and after its restart it completes its work.

Invariant under attack: a crash between any two steps loses nothing and repeats nothing. The short
form tests a few failpoints, `TEST_CHAOS=long` tests all of them.
"""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chaos.real_cluster import LONG, RealCluster, real_cluster, wait_through_outages
from chaos.workload import ROWS, batch_job, rows_in
from stoker.core.failpoints import FAILPOINTS
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids
from stoker.core.results import AttemptDetails, JobDetails
from stoker.core.states import ExecutionState, JobStatus

MASTER, EXECUTOR = "master-1", "task-executor-1"

EXECUTOR_FAILPOINTS = {
    name for name in FAILPOINTS if name.startswith(("slots.", "task.", "outcomes."))
}
CANCEL_FAILPOINTS = {name for name in FAILPOINTS if name.startswith(("cancellations.", "cancel."))}
RETENTION_FAILPOINTS = {name for name in FAILPOINTS if "pruning" in name}

TESTED_EXECUTOR_FAILPOINTS = sorted(EXECUTOR_FAILPOINTS) if LONG else ["outcomes.after-content"]

SHORT = (
    "job-graphs.after-record",
    "attempts.after-record",
    "job-results.before-record",
    "job-results.before-marking-clean",
)
TESTED_MASTER_FAILPOINTS = sorted(FAILPOINTS - EXECUTOR_FAILPOINTS) if LONG else SHORT

KEPT_RESULTS = 3
CONFIGURATION = f"""
job-result-store.max-count: {KEPT_RESULTS}
storage.orphans.max-age: 15 s
storage.orphans.sweep-interval: 2 s
"""

pytestmark = pytest.mark.timeout(900)
"""Some tests start Spark twice, which takes minutes on a busy machine."""

_ENDED_STATES = (ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.CANCELED)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A cluster with the embedded coordinator; at the end its storage may contain only results."""
    with real_cluster(
        tmp_path_factory.mktemp("cluster"),
        masters=1,
        task_executors=1,
        configuration=CONFIGURATION,
    ) as cluster:
        yield cluster
        wait_through_outages(
            lambda: not cluster.files_of_jobs(), "only results are left of all jobs", 40
        )


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize("failpoint", TESTED_EXECUTOR_FAILPOINTS)
def test_a_task_executor_that_dies_between_two_steps_loses_and_repeats_nothing(
    cluster: RealCluster, tmp_path: Path, failpoint: str
) -> None:
    cluster.kill(EXECUTOR)
    cluster.restart_dead_processes(failpoint)
    cluster.wait_until_ready()
    out = tmp_path / "out"
    graph = batch_job(Ids(), out, restarts=3, mode="overwrite")
    cluster.client.submit(graph)
    _wait_for_death(cluster, EXECUTOR, failpoint)
    cluster.restart_dead_processes()
    _wait_for_end(cluster, graph, JobStatus.FINISHED)
    assert rows_in(out) == ROWS


@pytest.mark.parametrize("failpoint", TESTED_MASTER_FAILPOINTS)
def test_a_master_that_dies_between_two_steps_loses_and_repeats_nothing(
    cluster: RealCluster, background: ThreadPoolExecutor, tmp_path: Path, failpoint: str
) -> None:
    """The sink appends, so a job that ran twice would leave twice the rows (RUN-17, CLEAN-13)."""
    cancels = failpoint in CANCEL_FAILPOINTS
    out = tmp_path / "out"
    graph = batch_job(Ids(), out, seconds=60 if cancels else 0)
    client = cluster.client
    if failpoint in RETENTION_FAILPOINTS:
        _overfill_result_store(cluster, tmp_path)
    cluster.kill(MASTER)
    cluster.restart_dead_processes(failpoint)
    submitted = background.submit(client.submit, graph)
    if cancels:
        submitted.result()
        wait_through_outages(
            lambda: _is_in_user_code(client.job(graph.job_id)), "the job has begun"
        )
        submitted = background.submit(client.cancel, graph.job_id)
    _wait_for_death(cluster, MASTER, failpoint)
    cluster.restart_dead_processes()
    submitted.result()
    details = _wait_for_end(cluster, graph, JobStatus.CANCELED if cancels else JobStatus.FINISHED)
    assert rows_in(out) == (0 if cancels else ROWS)
    started = [attempt for attempt in _attempts(details) if _began(attempt) is not None]
    assert len(started) <= 1, "an attempt was repeated although its task executor lived"


def _overfill_result_store(cluster: RealCluster, folder: Path) -> None:
    """Let so many jobs end that the next master removes a result when it starts."""
    # Two more than are kept: the last one may not be marked as clean yet, and then does not count.
    for number in range(KEPT_RESULTS + 2 - len(cluster.client.jobs())):
        graph = batch_job(Ids(), folder / f"earlier-{number}")
        cluster.client.submit(graph)
        _wait_for_end(cluster, graph, JobStatus.FINISHED)
    wait_through_outages(lambda: not cluster.files_of_jobs(), "all earlier jobs are cleaned up", 40)


def _wait_for_death(cluster: RealCluster, name: str, failpoint: str) -> None:
    wait_through_outages(lambda: not cluster.process(name).alive, f"{name} reaches {failpoint}")


def _wait_for_end(cluster: RealCluster, graph: JobGraph, expected: JobStatus) -> JobDetails:
    """Wait for the end of the job; its attempts must not overlap, and its status must be final."""
    client = cluster.client
    assert client.wait(graph.job_id) is expected
    details = client.job(graph.job_id)
    attempts = _attempts(details)
    assert [attempt.number for attempt in attempts] == list(range(len(attempts)))
    for former, later in itertools.pairwise(attempts):
        began = _began(later)
        ended = max(
            (former.timestamps[s] for s in _ENDED_STATES if s in former.timestamps), default=None
        )
        assert began is None or (ended is not None and ended <= began)
    assert client.submit(graph).job_id == graph.job_id
    assert client.status(graph.job_id) is expected
    return details


def _attempts(details: JobDetails) -> list[AttemptDetails]:
    (region,) = details.regions
    return sorted((*region.former, region.current), key=lambda attempt: attempt.number)


def _began(attempt: AttemptDetails) -> int | None:
    return attempt.timestamps.get(ExecutionState.RUNNING)


def _is_in_user_code(details: JobDetails) -> bool:
    """Whether the source of the job is sleeping, before Spark has any work."""
    return any(region.current.state is ExecutionState.INITIALIZING for region in details.regions)
