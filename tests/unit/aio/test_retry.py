import asyncio
import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.aio.retry import Backoff, retry
from stoker.testing.virtual_time import run_virtual

spans = st.integers(1, 10_000_000).map(lambda us: timedelta(microseconds=us))
backoffs = st.builds(
    lambda initial, extra, multiplier, jitter: Backoff(
        initial=initial, maximum=initial + extra, multiplier=multiplier, jitter=jitter
    ),
    spans,
    spans,
    st.floats(1, 10),
    st.floats(0, 1),
)


@given(backoffs, st.integers(0, 5000))
def test_without_jitter_delays_never_shrink_and_stay_under_the_maximum(backoff, failures):
    delay = backoff.delay(failures)
    assert backoff.initial <= delay <= backoff.maximum
    assert delay <= backoff.delay(failures + 1)
    assert backoff.delay(0) == backoff.initial


@given(backoffs, st.integers(0, 100), st.integers())
def test_jitter_changes_a_delay_by_at_most_its_fraction(backoff, failures, seed):
    plain = backoff.delay(failures).total_seconds()
    moved = backoff.delay(failures, random.Random(seed)).total_seconds()
    assert abs(moved - plain) <= plain * backoff.jitter + 2e-6


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial": timedelta(seconds=2), "maximum": timedelta(seconds=1)},
        {"initial": timedelta(0), "maximum": timedelta(1), "multiplier": 0.5},
        {"initial": timedelta(0), "maximum": timedelta(1), "jitter": 2},
    ],
)
def test_a_contradictory_schedule_is_refused(wrong):
    with pytest.raises(ValueError):
        Backoff(**wrong)


def failing(times, error):
    moments = []

    async def operation():
        moments.append(asyncio.get_running_loop().time())
        if len(moments) <= times:
            raise error
        return moments

    return operation, moments


ONE_TO_FIVE = Backoff(initial=timedelta(seconds=1), maximum=timedelta(seconds=5))


def test_attempts_follow_the_schedule_until_one_succeeds():
    operation, _ = failing(5, OSError("no"))
    told = []

    async def main():
        return await retry(
            operation, on=OSError, backoff=ONE_TO_FIVE, tell=lambda e, d: told.append(d.seconds)
        )

    assert run_virtual(main) == [0, 1, 3, 7, 12, 17]
    assert told == [1, 2, 4, 5, 5]


def test_the_last_error_and_errors_of_other_types_are_raised():
    operation, moments = failing(5, OSError("no"))
    with pytest.raises(OSError):
        run_virtual(retry(operation, on=OSError, backoff=ONE_TO_FIVE, attempts=3))
    assert len(moments) == 3
    operation, moments = failing(5, ValueError("no"))
    with pytest.raises(ValueError):
        run_virtual(retry(operation, on=OSError, backoff=ONE_TO_FIVE))
    assert len(moments) == 1
