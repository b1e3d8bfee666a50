"""Log fields follow the tasks of a scope."""

import asyncio

from stoker.aio.log_context import bind_log_fields, current_log_fields, log_fields, without


def test_a_task_carries_the_fields_of_the_scope_that_started_it() -> None:
    async def scenario() -> None:
        async def fields() -> dict[str, object]:
            return dict(current_log_fields())

        with log_fields(job="a", epoch=3):
            started_inside = asyncio.create_task(fields())
        started_outside = asyncio.create_task(fields())
        assert await started_inside == {"job": "a", "epoch": 3}
        assert await started_outside == {}

    asyncio.run(scenario())


def test_fields_bound_in_a_task_end_with_it() -> None:
    async def scenario() -> None:
        async def lead() -> None:
            bind_log_fields(epoch=4)
            assert current_log_fields() == {"epoch": 4}

        await asyncio.create_task(lead())
        assert current_log_fields() == {}

    asyncio.run(scenario())


def test_an_inner_scope_adds_to_the_fields_of_the_outer_one() -> None:
    with log_fields(component="task-executor", epoch=1):
        with log_fields(epoch=2, attempt="x"):
            assert current_log_fields() == {
                "component": "task-executor",
                "epoch": 2,
                "attempt": "x",
            }
        assert current_log_fields() == {"component": "task-executor", "epoch": 1}


def test_a_task_that_outlives_its_creator_starts_without_the_fields_of_the_creator() -> None:
    with log_fields(component="task-executor", job="a", attempt="x"):
        context = without("job", "attempt")
        assert context.run(current_log_fields) == {"component": "task-executor"}
        assert current_log_fields()["job"] == "a"
