"""Restart strategies."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.checks.job import job_faults
from stoker.core.errors import InvalidOption
from stoker.core.graph import JobType, RestartPolicy
from stoker.jobmaster.options import JobMasterOptions
from stoker.jobmaster.restarts import RestartStrategy, strategy_for
from stoker.jobmaster.run import policy_of
from unit.jobmaster.graphs import graph_with_sinks


def waits(strategy: RestartStrategy, times: list[float], jitter: float = 0) -> list[float | None]:
    answers = []
    for now in times:
        strategy, wait = strategy.after_failure(now, jitter)
        answers.append(wait)
    return answers


def test_fixed_delay_restarts_up_to_its_number_of_attempts() -> None:
    """It does not matter how far apart the failures are (FAIL-01)."""
    strategy = strategy_for(RestartPolicy(strategy="fixed-delay", attempts=2, delay_seconds=3))
    assert waits(strategy, [0, 1, 2, 1e9]) == [3, 3, None, None]


def test_exponential_delay_grows_to_its_maximum_and_resets_after_a_time_without_failure() -> None:
    """That time counts from the end of the last wait (FAIL-03)."""
    strategy = strategy_for(
        RestartPolicy(
            strategy="exponential-delay",
            delay_seconds=1,
            max_delay_seconds=5,
            multiplier=2,
            jitter=0,
            reset_after_seconds=100,
        )
    )
    assert waits(strategy, [0, 1, 3, 7, 12, 12 + 104, 12 + 104 + 105]) == [1, 2, 4, 5, 5, 5, 1]


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=30),
    st.floats(-1, 1),
    st.floats(0, 1),
    st.floats(1, 10),
)
def test_exponential_waits_stay_within_their_bounds(
    times: list[float], jitter: float, factor: float, multiplier: float
) -> None:
    policy = RestartPolicy(strategy="exponential-delay", jitter=factor, multiplier=multiplier)
    for wait in waits(strategy_for(policy), sorted(times), jitter):
        assert wait is not None
        assert 0 <= wait <= policy.max_delay_seconds


def test_without_a_policy_streaming_jobs_restart_and_batch_jobs_do_not() -> None:
    """Streaming jobs restart with exponential delay (FAIL-05)."""
    options = JobMasterOptions()
    assert options.policy_for(JobType.STREAMING).strategy == "exponential-delay"
    assert waits(strategy_for(options.policy_for(JobType.BATCH)), [0]) == [None]


def test_the_error_for_an_unknown_strategy_lists_the_known_ones() -> None:
    with pytest.raises(InvalidOption, match="'sometimes'; choose one of none, fixed-delay"):
        strategy_for(RestartPolicy(strategy="sometimes"))


def test_failure_rate_restarts_while_the_interval_has_few_enough_failures() -> None:
    """Older failures do not count (FAIL-02)."""
    policy = RestartPolicy(
        strategy="failure-rate", max_failures=2, interval_seconds=10, delay_seconds=4
    )
    assert waits(strategy_for(policy), [0, 5, 11, 12]) == [4, 4, 4, None]
    assert waits(strategy_for(policy), [0, 10, 20, 30]) == [4, 4, 4, 4]


@given(st.lists(st.floats(0, 1000), max_size=50), st.integers(0, 5), st.floats(1, 100))
def test_failure_rate_counts_only_the_failures_within_its_interval(
    times: list[float], most: int, interval: float
) -> None:
    times = sorted(times)
    policy = RestartPolicy(strategy="failure-rate", max_failures=most, interval_seconds=interval)
    answers = waits(strategy_for(policy), times)
    for number, (now, answer) in enumerate(zip(times, answers, strict=True)):
        recent = sum(now - at < interval for at in times[: number + 1])
        assert (answer is not None) == (recent <= most)


def test_exponential_delay_gives_up_after_its_number_of_restarts_without_a_reset() -> None:
    """A reset begins the count again (FAIL-04)."""
    policy = RestartPolicy(
        strategy="exponential-delay", jitter=0, multiplier=1, attempts_before_reset=2
    )
    assert waits(strategy_for(policy), [0, 1, 2]) == [1, 1, None]
    assert waits(strategy_for(policy), [0, 1, 1e6]) == [1, 1, 1]


def test_failures_during_one_wait_count_as_one_restart() -> None:
    """All of them restart at the end of that wait (FAIL-04, X-FAIL-01)."""
    policy = RestartPolicy(
        strategy="exponential-delay", delay_seconds=4, jitter=0, attempts_before_reset=1
    )
    assert waits(strategy_for(policy), [0, 1, 3.5]) == [4, 3, 0.5]


def test_restart_options_of_a_job_take_precedence_over_those_of_the_cluster() -> None:
    """The restart policy in the graph takes precedence over both (FAIL-06)."""
    options = JobMasterOptions(restart_strategy="fixed-delay", fixed_delay_attempts=7)
    graph = graph_with_sinks("out")
    assert policy_of(graph, options).attempts == 7
    keys = {
        "restart-strategy.type": "failure-rate",
        "restart-strategy.failure-rate.max-failures-per-interval": "9",
        "restart-strategy.failure-rate.failure-rate-interval": "2 min",
        "restart-strategy.failure-rate.delay": "500 ms",
    }
    graph = msgspec.structs.replace(graph, configuration=keys)
    assert policy_of(graph, options) == RestartPolicy(
        strategy="failure-rate", max_failures=9, interval_seconds=120, delay_seconds=0.5
    )
    own = msgspec.structs.replace(graph, restart=RestartPolicy(strategy="none"))
    assert policy_of(own, options).strategy == "none"


@pytest.mark.parametrize("word", ["off", "disable", "none"])
def test_restarts_can_be_switched_off_for_streaming_jobs(word: str) -> None:
    assert JobMasterOptions(restart_strategy=word).policy_for(JobType.STREAMING).strategy == "none"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parallelism_overrides": {"total": "many"}}, "of vertex total is 'many'; write a whole"),
        ({"parallelism_overrides": {"a": "1", "total": "0"}}, "of vertex total is '0'"),
        ({"parallelism_overrides": {"a,b": "1"}}, "of vertex a,b is '1'"),
        ({"restart_strategy": "sometimes"}, "restart-strategy.type is 'sometimes': choose one of"),
    ],
)
def test_a_wrong_option_of_the_cluster_names_itself_at_the_start(
    options: dict[str, Any], message: str
) -> None:
    """Otherwise it would break the master of every job, again and again."""
    with pytest.raises(InvalidOption, match=message):
        JobMasterOptions(**options)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("restart-strategy.type", "sometimes", "choose one of none, fixed-delay, failure-rate"),
        ("restart-strategy.fixed-delay.delay", "soon", "'soon' is not a duration"),
        ("restart-strategy.fixed-delay.attempts", "-1", "attempts is -1"),
        ("pipeline.jobvertex-parallelism-overrides", "out:many", "'out:many' is not vertex:number"),
        ("pipeline.jobvertex-parallelism-overrides", "oud:4", "did you mean 'out'"),
        ("restart-strategy.fixed-delay.atempts", "3", "did you mean 'restart-strategy.fixed-delay"),
        ("restart-strategy.failure-rate.delay", "soon", "'soon' is not a duration"),
    ],
)
def test_invalid_restart_options_of_a_job_are_reported_at_submission(
    key: str, value: str, message: str
) -> None:
    """They are faults of the graph (FAIL-06)."""
    keys = {"restart-strategy.type": "fixed-delay", key: value}
    graph = msgspec.structs.replace(graph_with_sinks("out"), configuration=keys)
    assert message in "; ".join(map(str, job_faults(graph)))
