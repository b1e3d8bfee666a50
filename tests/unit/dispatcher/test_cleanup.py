"""Clean-up of an ended job (CLEAN-*)."""

import asyncio
from datetime import timedelta

import pytest

from stoker.core.errors import LeadershipLost, StorageUnavailable
from stoker.core.ids import JobId
from stoker.dispatcher.cleanup import CleanupStep, clean_up
from stoker.testing.virtual_time import run_virtual

JOB = JobId("1" * 32)


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


async def run(steps: Steps) -> None:
    await clean_up(
        JOB,
        [steps.step(name) for name in ("one", "two", "three")],
        initial=timedelta(seconds=1),
        maximum=timedelta(seconds=4),
    )


def test_steps_run_in_their_order() -> None:
    """CLEAN-08"""
    steps = Steps()
    run_virtual(lambda: run(steps))
    assert [name for name, _ in steps.done] == ["one", "two", "three"]


def test_only_what_failed_is_tried_again_and_others_are_not_kept_waiting() -> None:
    """CLEAN-10, CLEAN-11"""
    steps = Steps(two=4)
    run_virtual(lambda: run(steps))
    assert steps.done == [("one", 0), ("three", 0), ("two", 1 + 2 + 4 + 4)]
    assert steps.tries.count("one") == steps.tries.count("three") == 1


def test_the_end_of_leadership_ends_the_clean_up() -> None:
    """CLEAN-13: the next leader finishes it from the dirty record."""
    steps = Steps()

    async def lost(job_id: JobId) -> None:
        raise LeadershipLost("over")

    async def main() -> None:
        await clean_up(
            JOB,
            [CleanupStep("lost", lost), steps.step("never")],
            initial=timedelta(seconds=1),
            maximum=timedelta(seconds=4),
        )

    with pytest.raises(LeadershipLost):
        run_virtual(main)
    assert steps.tries == []
