"""Restart strategies (FAIL-*)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidOption
from stoker.core.graph import JobType, RestartPolicy
from stoker.jobmaster.options import JobMasterOptions
from stoker.jobmaster.restarts import RestartStrategy, strategy_for


def waits(strategy: RestartStrategy, times: list[float], jitter: float = 0) -> list[float | None]:
    answers = []
    for now in times:
        strategy, wait = strategy.after_failure(now, jitter)
        answers.append(wait)
    return answers


def test_fixed_delay_restarts_so_often_and_no_more() -> None:
    """FAIL-01"""
    strategy = strategy_for(RestartPolicy(strategy="fixed-delay", attempts=2, delay_seconds=3))
    assert waits(strategy, [0, 1, 2, 1e9]) == [3, 3, None, None]


def test_exponential_delay_grows_to_its_maximum_and_starts_over_after_quiet() -> None:
    """FAIL-03"""
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
    """FAIL-05"""
    options = JobMasterOptions()
    assert options.policy_for(JobType.STREAMING).strategy == "exponential-delay"
    assert waits(strategy_for(options.policy_for(JobType.BATCH)), [0]) == [None]


def test_an_unknown_strategy_is_named_with_those_that_exist() -> None:
    with pytest.raises(InvalidOption, match="'sometimes'; choose one of none, fixed-delay"):
        strategy_for(RestartPolicy(strategy="sometimes"))
