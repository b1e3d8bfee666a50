"""Failures of a job: which regions restart, the history and the causes."""

import pytest

from stoker.core.graph import RestartPolicy
from stoker.core.results import Failure
from stoker.core.states import ExecutionState, JobStatus
from stoker.jobmaster.attempts import Attempt, CancelAttempt, RestartAfter
from stoker.jobmaster.execution_graph import MAX_INTERRUPTIONS, ExecutionGraph
from stoker.jobmaster.failures import DAMAGED_RESULT, cause_of, label_cause
from unit.jobmaster.graphs import (
    BOOM,
    HOPELESS,
    deployments,
    ended,
    graph_with_sinks,
    slot,
    started,
)

AGAIN = RestartPolicy(strategy="fixed-delay", attempts=100, delay_seconds=1)
DAMAGED = Failure(error="ResultDamaged", message="x", labels={DAMAGED_RESULT: "numbers"})


def reading_job() -> tuple[ExecutionGraph, Attempt, Attempt]:
    """A job whose materialized vertex has finished and whose two readers run."""
    job, [producer] = started(graph_with_sinks("one", "two", materialized=True), AGAIN, slots=2)
    job.attempt_ended(ended(producer, ExecutionState.FINISHED), 5)
    job.slots_offered([slot(7)], 5)
    one, two = [run.current for run in job.runs if run.region.id != "numbers"]
    assert one.is_deployed
    assert two.is_deployed
    return job, one, two


def test_a_damaged_result_is_recomputed_and_its_readers_restart() -> None:
    job, one, two = reading_job()
    commands = job.attempt_failed(one.id, DAMAGED, 6)
    [restart] = [command for command in commands if isinstance(command, RestartAfter)]
    assert restart.region == "numbers"
    assert CancelAttempt(two.id, two.slot) in commands
    job.attempt_ended(two.failed_outcome(job.job_id, BOOM, 7), 7)
    assert len(job.failures) == 1, "an attempt cancelled for a restart has not failed"
    [again] = deployments(job.restart_due(restart.region, restart.attempt, 8))
    assert (again.region, again.number) == ("numbers", 1)
    _, commands = job.attempt_ended(ended(again, ExecutionState.FINISHED), 9)
    _, more = job.slots_offered([slot(8)], 9)
    readers = deployments([*commands, *more])
    assert {deploy.region for deploy in readers} == {"one", "two"}
    for deploy in readers:
        job.attempt_ended(ended(deploy, ExecutionState.FINISHED), 10)
    assert job.status is JobStatus.FINISHED


def test_two_readers_of_one_damaged_result_cause_one_restart_of_its_vertex() -> None:
    job, one, two = reading_job()
    job.attempt_failed(one.id, DAMAGED, 6)
    job.attempt_failed(two.id, DAMAGED, 6)
    assert [run.current.number for run in job.runs] == [1, 1, 1]


def test_a_full_failover_restarts_running_regions_and_not_finished_ones() -> None:
    """The other running region is cancelled first (FAIL-07)."""
    graph = graph_with_sinks("one", "two", "three")
    job, [one, two, three] = started(graph, AGAIN, slots=3, full_fail_over=True)
    job.attempt_ended(ended(three, ExecutionState.FINISHED), 5)
    _, commands = job.attempt_ended(ended(one, ExecutionState.FAILED, BOOM), 6)
    assert CancelAttempt(two.attempt, two.slot) in commands
    _, commands = job.attempt_ended(ended(two, ExecutionState.CANCELED), 7)
    assert [deploy.region for deploy in deployments(commands)] == ["two"]
    assert [run.current.number for run in job.runs] == [1, 1, 0]


def test_a_cancellation_wins_over_a_restart_that_waits_for_an_attempt_to_end() -> None:
    job, one, two = reading_job()
    job.attempt_failed(one.id, DAMAGED, 6)
    job.cancel(7)
    job.attempt_ended(two.failed_outcome(job.job_id, BOOM, 8), 8)
    assert job.status is JobStatus.CANCELED


def test_an_attempt_that_died_with_its_output_decided_is_retried_without_counting_a_restart() -> (
    None
):
    job, [deploy] = started(graph_with_sinks("out"))
    for number in range(MAX_INTERRUPTIONS):
        [deploy] = deployments(job.attempt_interrupted(deploy.attempt, BOOM, 6 + number))
        assert deploy.number == number + 1
        assert job.status is JobStatus.RUNNING
    job.attempt_interrupted(deploy.attempt, BOOM, 20)
    assert job.status is JobStatus.FAILED


def test_failures_of_a_failing_job_are_recorded_as_concurrent_with_its_root_failure() -> None:
    """The history has one entry for both (FAIL-10)."""
    job, [one, two] = started(graph_with_sinks("one", "two"), slots=2)
    job.attempt_ended(ended(one, ExecutionState.FAILED, HOPELESS), 6)
    assert job.status is JobStatus.FAILING
    job.attempt_ended(ended(two, ExecutionState.FAILED, BOOM), 7)
    [record] = job.details().failures
    assert (record.failure, record.attempt, record.task_executor) == (HOPELESS, one.attempt, "te")
    [concurrent] = record.concurrent
    assert (concurrent.failure, concurrent.region) == (BOOM, "two")


def test_the_history_of_failures_and_attempts_is_bounded_by_the_options() -> None:
    """All restarts are counted nevertheless (FAIL-10)."""
    job, [deploy] = started(graph_with_sinks("out"), AGAIN, failures_kept=3, attempts_kept=2)
    for number in range(6):
        _, [restart] = job.attempt_ended(ended(deploy, ExecutionState.FAILED, BOOM), 6 + number)
        assert isinstance(restart, RestartAfter)
        [deploy] = deployments(job.restart_due(restart.region, restart.attempt, 7 + number))
    details = job.details()
    assert [record.attempt_number for record in details.failures] == [5, 4, 3]
    assert [attempt.number for attempt in details.regions[0].former] == [4, 5]
    assert job.restarts == 6


def test_late_labels_reach_the_history_and_the_root_failure() -> None:
    """The job has failed before its plug-ins answer (FAIL-11)."""
    job, [deploy] = started(graph_with_sinks("out"))
    job.attempt_ended(ended(deploy, ExecutionState.FAILED, BOOM), 6)
    job.failure_labelled(deploy.attempt, {"team": "ingest"})
    assert job.details().failures[0].failure.labels["team"] == "ingest"
    assert job.root_failure is not None
    assert job.root_failure.labels["team"] == "ingest"


@pytest.mark.parametrize(
    ("error", "message", "trace", "cause"),
    [
        ("TaskExecutorLost", "its process is gone", "", "task-executor-lost"),
        ("RunnerDied", "killed; the machine may have run out of memory", "", "out-of-memory"),
        ("SparkException", "java.lang.OutOfMemoryError: Java heap space", "", "out-of-memory"),
        ("MemoryError", "", "In the job's code", "out-of-memory"),
        ("ModuleNotFoundError", "No module named 'numpyy'", "In the job's code", "dependency"),
        ("PythonException", "ModuleNotFoundError: No module named 'x'", "", "dependency"),
        ("UserCodeMismatch", "pandas 1 there", "", "dependency"),
        ("StorageUnavailable", "cannot read", "", "storage"),
        ("OSError", "[Errno 28] No space left on device", "In the job's code", "storage"),
        ("ResultDamaged", "a file is missing", "", "storage"),
        ("SparkServerDied", "exit status 1", "", "spark"),
        ("RunnerDied", "exit status 3", "", "spark"),
        ("StreamingQueryException", "stopped", "", "spark"),
        ("PythonException", "ValueError: 3", "", "user-code"),
        ("LookupError", "no such tree", "In the job's code (most recent call first)", "user-code"),
    ],
)
def test_each_kind_of_failure_gets_its_label(
    error: str, message: str, trace: str, cause: str
) -> None:
    assert cause_of(Failure(error=error, message=message, stack_trace=trace)) == cause


def test_a_cause_that_is_already_labelled_is_kept() -> None:
    assert label_cause(Failure(error="X", message="", labels={"cause": "resources"})) == {}
