"""Operations that continue after their request was answered."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from stoker.core.errors import InvalidInput, NotFound, StorageUnavailable, Unavailable
from stoker.core.ids import Ids, JobId
from stoker.rest.requests.operations import (
    OperationKey,
    Operations,
    TriggerId,
    choose_trigger_id,
    parse_trigger_id,
)
from stoker.testing.virtual_time import run_virtual

KEY = OperationKey(kind="savepoint", trigger_id=TriggerId("a" * 32), job_id=JobId("1" * 32))


class Work:
    def __init__(self) -> None:
        self.begun = 0
        self.gate = asyncio.Event()

    async def __call__(self) -> dict[str, Any]:
        self.begun += 1
        await self.gate.wait()
        return {"location": "file:/somewhere"}


def test_an_operation_runs_once_however_often_it_is_triggered() -> None:
    """A repeated trigger does not count as reading the outcome.

    Whether it is known can be asked at any time (OPS-01, X-OPS-01, X-OPS-02, REST-18).
    """

    async def scenario() -> None:
        operations, work = Operations(timedelta(minutes=5)), Work()
        assert KEY not in operations
        operations.trigger(KEY, work)
        operations.trigger(KEY, work)
        await asyncio.sleep(1)
        assert operations.status(KEY).status.id == "IN_PROGRESS"
        work.gate.set()
        await asyncio.sleep(1)
        operations.trigger(KEY, work)
        assert operations._has_unread()
        assert operations.status(KEY).operation == {"location": "file:/somewhere"}
        assert not operations._has_unread()
        assert work.begun == 1
        assert KEY in operations
        await operations.close()

    run_virtual(scenario())


def test_an_operation_of_another_kind_or_job_is_unknown() -> None:
    """So is one with another trigger id; the error names the kind (OPS-02, REST-19)."""

    async def scenario() -> None:
        operations, work = Operations(timedelta(minutes=5)), Work()
        work.gate.set()
        operations.trigger(KEY, work)
        for other in (
            replace(KEY, kind="disposal"),
            replace(KEY, job_id=JobId("2" * 32)),
            replace(KEY, trigger_id=TriggerId("b" * 32)),
        ):
            with pytest.raises(NotFound, match=f"no {other.kind} operation"):
                operations.status(other)
        await asyncio.sleep(1)
        assert operations.status(KEY).status.id == "COMPLETED"
        await operations.close()

    run_virtual(scenario())


def test_a_failure_is_a_result_with_its_cause_and_an_internal_error_reveals_no_details() -> None:
    """An error that Stoker foresees has a message for users (OPS-07)."""

    async def refused() -> dict[str, Any]:
        raise StorageUnavailable("the disk is full")

    async def broken() -> dict[str, Any]:
        raise KeyError("secret")

    async def scenario() -> None:
        operations = Operations(timedelta(minutes=5))
        other = OperationKey(kind="disposal", trigger_id=KEY.trigger_id)
        operations.trigger(KEY, refused)
        operations.trigger(other, broken)
        await asyncio.sleep(1)
        known, fault = operations.status(KEY).operation, operations.status(other).operation
        assert isinstance(known, dict)
        assert known["failure-cause"].error == "StorageUnavailable"
        assert "the disk is full" in known["failure-cause"].stack_trace
        assert isinstance(fault, dict)
        assert "secret" not in fault["failure-cause"].stack_trace

    run_virtual(scenario())


def test_a_result_is_forgotten_after_the_store_duration_unless_that_is_zero() -> None:
    """The time counts from the end of the operation (OPS-05)."""

    async def scenario() -> None:
        for keep, known in ((timedelta(minutes=5), False), (timedelta(0), True)):
            operations, work = Operations(keep), Work()
            work.gate.set()
            operations.trigger(KEY, work)
            await asyncio.sleep(299)
            assert KEY in operations
            await asyncio.sleep(2)
            assert (KEY in operations) is known

    run_virtual(scenario())


def test_closing_refuses_new_operations_and_waits_until_results_are_read() -> None:
    """It ends as soon as the last outcome was read (OPS-03, OPS-04)."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        operations, work = Operations(timedelta(minutes=5)), Work()
        operations.trigger(KEY, work)
        closing = asyncio.create_task(operations.close(timedelta(seconds=60)))
        await asyncio.sleep(1)
        with pytest.raises(Unavailable):
            operations.trigger(OperationKey(kind="x", trigger_id=KEY.trigger_id), work)
        work.gate.set()
        await asyncio.sleep(1)
        assert operations.status(KEY).status.id == "COMPLETED"
        await closing
        assert loop.time() < 10

    run_virtual(scenario())


def test_closing_cancels_operations_that_are_never_polled() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        operations, work = Operations(timedelta(minutes=5)), Work()
        operations.trigger(KEY, work)
        begin = loop.time()
        await operations.close(timedelta(seconds=60))
        assert loop.time() - begin == pytest.approx(60)

    run_virtual(scenario())


def test_a_trigger_id_is_chosen_by_the_client_or_random() -> None:
    assert choose_trigger_id("A" * 32, Ids()) == "a" * 32
    assert len(choose_trigger_id(None, Ids())) == 32
    with pytest.raises(InvalidInput, match="32 hexadecimal digits"):
        parse_trigger_id("a" * 31)
