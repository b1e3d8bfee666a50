"""A process dies at a failpoint, as by kill -9, and its restart finishes what it left.

Invariant under attack: a crash between any two steps loses nothing and repeats nothing. Usually one
failpoint of each kind; `STOKER_CHAOS=long` takes all of them.
"""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chaos.real_cluster import LONG, RealCluster, eventually, real_cluster
from chaos.workload import ROWS, batch_job, rows_in
from stoker.core.failpoints import FAILPOINTS
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids
from stoker.core.results import AttemptDetails, JobDetails
from stoker.core.states import ExecutionState, JobStatus

MASTER, EXECUTOR = "master-1", "task-executor-1"

OF_EXECUTORS = {name for name in FAILPOINTS if name.startswith(("slots.", "task.", "outcomes."))}
OF_CANCELS = {name for name in FAILPOINTS if name.startswith(("cancellations.", "cancel."))}
AT_RETENTION = {name for name in FAILPOINTS if "pruning" in name}

FIRST_ARMED = "outcomes.after-content"
"""The task executor's first life dies here, which spares one start of Spark."""
OTHERS_OF_EXECUTORS = sorted(OF_EXECUTORS - {FIRST_ARMED}) if LONG else []

SHORT = (
    "job-graphs.after-record",
    "attempts.after-record",
    "job-results.before-record",
    "job-results.before-marking-clean",
)
LATE = OF_CANCELS | AT_RETENTION
"""Retention needs results of jobs before."""
OF_MASTERS = [*sorted(FAILPOINTS - OF_EXECUTORS - LATE), *sorted(LATE)] if LONG else list(SHORT)

CONFIGURATION = """
job-result-store.max-count: 3
storage.orphans.max-age: 15 s
storage.orphans.sweep-interval: 2 s
"""

pytestmark = pytest.mark.timeout(900)
"""Some start Spark twice, which takes minutes on a machine with much other work."""

_OVER = (ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.CANCELED)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A cluster with the embedded coordinator. Only results may be left in the storage."""
    with real_cluster(
        tmp_path_factory.mktemp("cluster"),
        masters=1,
        task_executors=1,
        configuration=CONFIGURATION,
        failpoint=FIRST_ARMED,
    ) as cluster:
        yield cluster
        eventually(lambda: not cluster.files_of_jobs(), "only results are left of all jobs", 40)


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize("failpoint", [FIRST_ARMED, *OTHERS_OF_EXECUTORS])
def test_a_task_executor_that_dies_between_two_steps_costs_one_restart(
    cluster: RealCluster, tmp_path: Path, failpoint: str
) -> None:
    if failpoint != FIRST_ARMED:
        cluster.kill(EXECUTOR)
        cluster.restart_the_dead(failpoint)
        cluster.wait_until_whole()
    out = tmp_path / "out"
    graph = batch_job(Ids(), out, restarts=3, mode="overwrite")
    cluster.client.submit(graph)
    _wait_for_death(cluster, EXECUTOR, failpoint)
    cluster.restart_the_dead()
    _ends(cluster, graph, JobStatus.FINISHED)
    assert rows_in(out) == ROWS


@pytest.mark.parametrize("failpoint", OF_MASTERS)
def test_a_master_that_dies_between_two_steps_loses_and_repeats_nothing(
    cluster: RealCluster, background: ThreadPoolExecutor, tmp_path: Path, failpoint: str
) -> None:
    """The sink appends, so a job that ran twice would leave twice the rows (RUN-17, CLEAN-13)."""
    cancels = failpoint in OF_CANCELS
    out = tmp_path / "out"
    graph = batch_job(Ids(), out, seconds=60 if cancels else 0)
    client = cluster.client
    if failpoint in AT_RETENTION:
        # Results of jobs that are not cleaned up are never forgotten, and so do not count.
        eventually(lambda: not cluster.files_of_jobs(), "all jobs before are cleaned up", 40)
    cluster.kill(MASTER)
    cluster.restart_the_dead(failpoint)
    submitted = background.submit(client.submit, graph)
    if cancels:
        submitted.result()
        eventually(lambda: _is_in_user_code(client.job(graph.job_id)), "the job has begun")
        submitted = background.submit(client.cancel, graph.job_id)
    _wait_for_death(cluster, MASTER, failpoint)
    cluster.restart_the_dead()
    submitted.result()
    details = _ends(cluster, graph, JobStatus.CANCELED if cancels else JobStatus.FINISHED)
    assert rows_in(out) == (0 if cancels else ROWS)
    begun = [attempt for attempt in _attempts(details) if _began(attempt) is not None]
    assert len(begun) <= 1, "the task executor lived, so nothing had to be begun again"


def _wait_for_death(cluster: RealCluster, name: str, failpoint: str) -> None:
    eventually(lambda: not cluster.process(name).alive, f"{name} comes by {failpoint}")


def _ends(cluster: RealCluster, graph: JobGraph, expected: JobStatus) -> JobDetails:
    """Waits for the end; the attempts did not overlap, and the end does not change."""
    client = cluster.client
    assert client.wait(graph.job_id) is expected
    details = client.job(graph.job_id)
    attempts = _attempts(details)
    assert [attempt.number for attempt in attempts] == list(range(len(attempts)))
    for former, later in itertools.pairwise(attempts):
        began = _began(later)
        over = max((former.timestamps[s] for s in _OVER if s in former.timestamps), default=None)
        assert began is None or (over is not None and over <= began)
    assert client.submit(graph).job_id == graph.job_id
    assert client.status(graph.job_id) is expected
    return details


def _attempts(details: JobDetails) -> list[AttemptDetails]:
    (region,) = details.regions
    return sorted((*region.former, region.current), key=lambda attempt: attempt.number)


def _began(attempt: AttemptDetails) -> int | None:
    return attempt.timestamps.get(ExecutionState.RUNNING)


def _is_in_user_code(details: JobDetails) -> bool:
    """The source of the job sleeps, so Spark has nothing to do yet."""
    return any(region.current.state is ExecutionState.INITIALIZING for region in details.regions)
