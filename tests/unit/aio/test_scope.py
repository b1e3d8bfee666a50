import asyncio
import inspect

import pytest

from stoker.aio.scope import TaskScope
from stoker.core.errors import RecipientUnreachable
from stoker.testing.virtual_time import run_virtual


async def fail_after(delay, error):
    await asyncio.sleep(delay)
    raise error


def test_tasks_are_named_and_cancelled_quietly_at_the_end():
    async def main():
        async with TaskScope("keeper") as scope:
            task = scope.spawn("forever", asyncio.sleep(1e9))
            short = scope.spawn("short", asyncio.sleep(1, "done"))
            assert await short == "done"
        assert task.cancelled()
        assert task.get_name() == "keeper/forever"
        assert asyncio.get_running_loop().time() == 1

    run_virtual(main)


def test_the_failure_of_a_task_ends_the_scope_and_is_raised_unchanged():
    async def main():
        async with TaskScope("keeper") as scope:
            scope.spawn("neighbour", asyncio.sleep(1e9))
            scope.spawn("bad", fail_after(1, LookupError("bad")))
            await asyncio.sleep(1e9)

    with pytest.raises(LookupError, match="bad"):
        run_virtual(main)


def test_an_error_of_the_body_is_raised_unchanged():
    error = LookupError("body")

    async def main():
        async with TaskScope("keeper") as scope:
            scope.spawn("neighbour", asyncio.sleep(1e9))
            raise error

    with pytest.raises(LookupError) as caught:
        run_virtual(main)
    assert caught.value is error


def test_several_failures_are_raised_together():
    async def main():
        async with TaskScope("keeper") as scope:
            scope.spawn("one", fail_after(1, LookupError("one")))
            scope.spawn("two", fail_after(1, ValueError("two")))
            await asyncio.sleep(1e9)

    with pytest.raises(ExceptionGroup) as caught:
        run_virtual(main)
    assert len(caught.value.exceptions) == 2


def test_the_first_of_several_expected_failures_is_raised():
    async def main():
        async with TaskScope("keeper") as scope:
            scope.spawn("one", fail_after(1, RecipientUnreachable("one")))
            scope.spawn("two", fail_after(1, RecipientUnreachable("two")))
            await asyncio.sleep(1e9)

    with pytest.raises(RecipientUnreachable, match="one"):
        run_virtual(main)


def test_cancelling_the_owner_cancels_the_tasks_and_the_owner():
    async def main():
        tasks = []

        async def owner():
            async with TaskScope("keeper") as scope:
                tasks.append(scope.spawn("forever", asyncio.sleep(1e9)))
                await asyncio.sleep(1e9)

        running = asyncio.create_task(owner())
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert tasks[0].cancelled()

    run_virtual(main)


def test_a_cancellation_of_the_owner_takes_precedence_over_a_simultaneous_failure():
    async def main():
        went_on = []

        async def owner():
            try:
                async with TaskScope("keeper") as scope:
                    scope.spawn("bad", fail_after(1, RecipientUnreachable("bad")))
                    await asyncio.sleep(1e9)
            except RecipientUnreachable:
                went_on.append(True)

        running = asyncio.create_task(owner())
        loop = asyncio.get_running_loop()
        # The scope notices the failure in the next turn of the loop, together with this.
        loop.call_at(1, lambda: loop.call_soon(running.cancel))
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled()
        assert went_on == []

    run_virtual(main)


def test_a_failure_at_the_end_of_the_body_does_not_cancel_the_owner():
    async def main():
        with pytest.raises(RecipientUnreachable):
            async with TaskScope("keeper") as scope:
                bad = scope.spawn("bad", fail_after(1, RecipientUnreachable("bad")))
                while not bad.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0

    run_virtual(main)


def test_nothing_starts_in_a_scope_that_has_ended():
    async def main():
        async with TaskScope("keeper") as scope:
            pass
        with pytest.raises(RuntimeError, match="keeper is not open"):
            scope.spawn("late", asyncio.sleep(1))

    run_virtual(main)


def test_between_a_failure_and_the_end_of_its_scope_no_task_is_started():
    late = asyncio.sleep(1)
    refused: list[str] = []

    async def main():
        async with TaskScope("keeper") as scope:

            def spawn_late(_: object) -> None:
                try:
                    scope.spawn("late", late)
                except RuntimeError as error:
                    refused.append(str(error))

            bad = scope.spawn("bad", fail_after(1, LookupError("bad")))
            bad.add_done_callback(spawn_late)
            await asyncio.sleep(1e9)

    with pytest.raises(LookupError, match="bad"):
        run_virtual(main)
    assert len(refused) == 1
    # Otherwise Python warns about a coroutine that was never awaited.
    assert inspect.getcoroutinestate(late) == inspect.CORO_CLOSED
