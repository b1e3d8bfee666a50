"""Clean-up of an ended job."""

import asyncio
from datetime import timedelta

import pytest

from stoker.config.load import configuration_from
from stoker.config.options import ALL
from stoker.config.sources import settings_on_command_line
from stoker.config.tree import OptionTree
from stoker.core.errors import InvalidOption, LeadershipLost, StorageUnavailable
from stoker.core.ids import JobId
from stoker.dispatcher.cleanup import CleanupStep, clean_up, retries_of
from stoker.dispatcher.options import CleanupStrategy, DispatcherOptions
from stoker.testing.virtual_time import run_virtual

JOB = JobId("1" * 32)
QUICK = DispatcherOptions(
    cleanup_initial_backoff=timedelta(seconds=1), cleanup_max_backoff=timedelta(seconds=4)
)


class Steps:
    def __init__(self, **failures: int) -> None:
        self.failures = failures
        self.done: list[tuple[str, float]] = []
        self.tries: list[str] = []

    def step(self, name: str) -> CleanupStep:
        async def run(job_id: JobId) -> None:
            self.tries.append(name)
            if self.failures.get(name, 0) > 0:
                self.failures[name] -= 1
                raise StorageUnavailable("away")
            self.done.append((name, asyncio.get_running_loop().time()))

        return CleanupStep(name, run)


async def run(steps: Steps, options: DispatcherOptions = QUICK) -> bool:
    names = ("one", "two", "three")
    return await clean_up(JOB, [steps.step(name) for name in names], retries_of(options))


def test_clean_up_steps_run_in_order() -> None:
    """The order is the one in which they are given (CLEAN-08)."""
    steps = Steps()
    run_virtual(lambda: run(steps))
    assert [name for name, _ in steps.done] == ["one", "two", "three"]


def test_only_failed_steps_are_retried_and_they_do_not_hold_up_others() -> None:
    """Every step is tried, also after a failure (CLEAN-10, CLEAN-11)."""
    steps = Steps(two=4)
    run_virtual(lambda: run(steps))
    assert steps.done == [("one", 0), ("three", 0), ("two", 1 + 2 + 4 + 4)]
    assert steps.tries.count("one") == steps.tries.count("three") == 1


def test_the_end_of_leadership_ends_the_clean_up() -> None:
    """The next leader finishes the clean-up from the dirty record (CLEAN-13)."""
    steps = Steps()

    async def lost(job_id: JobId) -> None:
        raise LeadershipLost("over")

    async def main() -> None:
        parts = [CleanupStep("lost", lost), steps.step("never")]
        await clean_up(JOB, parts, retries_of(QUICK))

    with pytest.raises(LeadershipLost):
        run_virtual(main)
    assert steps.tries == []


@pytest.mark.parametrize("text", ["none", "disable", "off"])
def test_without_retries_a_failed_step_is_left_to_the_next_leader(text: str) -> None:
    """The strategy `none` (CLEAN-12)."""
    steps = Steps(two=1)
    options = DispatcherOptions(cleanup_strategy=CleanupStrategy(text))
    assert not run_virtual(lambda: run(steps, options))
    assert steps.done == [("one", 0), ("three", 0)]


def test_the_fixed_delay_strategy_uses_the_configured_attempts_and_delay() -> None:
    """The strategy `fixed-delay` (CLEAN-12)."""
    options = DispatcherOptions(
        cleanup_strategy=CleanupStrategy.FIXED_DELAY,
        cleanup_fixed_attempts=3,
        cleanup_fixed_delay=timedelta(seconds=7),
    )
    steps = Steps(two=2)
    assert run_virtual(lambda: run(steps, options))
    assert steps.done[-1] == ("two", 14)
    steps = Steps(two=3)
    assert not run_virtual(lambda: run(steps, options))
    assert steps.tries.count("two") == 3


def test_the_exponential_delay_strategy_can_run_out_of_attempts() -> None:
    """The strategy `exponential-delay` (CLEAN-12)."""
    options = DispatcherOptions(cleanup_exponential_attempts=2)
    steps = Steps(two=2)
    assert not run_virtual(lambda: run(steps, options))
    assert steps.tries.count("two") == 2


def test_by_default_a_step_is_retried_with_pauses_from_1_s_to_1_h_until_it_succeeds() -> None:
    """Clean-up never gives up on its own (CLEAN-12)."""
    retries = retries_of(DispatcherOptions())
    assert retries.attempts is None
    assert retries.pauses.delay(0) == timedelta(seconds=1)
    assert retries.pauses.delay(100) == timedelta(hours=1)


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    """The mistake is found at the start (CLEAN-12)."""
    with pytest.raises(InvalidOption, match="fixed-delay"):
        configuration_from(
            OptionTree(ALL), settings_on_command_line(["cleanup-strategy.type=sometimes"])
        )
