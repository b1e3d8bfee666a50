"""Operations of several calls, driven step by step without a master."""

from typing import Any

import pytest

from stoker.client import operations
from stoker.client.masters import Masters
from stoker.client.options import ClientOptions
from stoker.client.steps import ClientSettings, RestCall, Steps
from stoker.core.ids import JobId

JOB, TRIGGER = JobId("1" * 32), "7" * 32


def first_call(operation: Steps[Any], masters: Masters) -> RestCall[Any]:
    assert next(operation) is ClientSettings
    call = operation.send(ClientSettings(ClientOptions(), masters.hold_seconds))
    assert isinstance(call, RestCall)
    return call


@pytest.mark.parametrize(("urls", "seconds"), [(("http://a",), 20), (("http://a", "http://b"), 5)])
def test_one_of_several_masters_may_hold_an_answer_only_for_a_short_time(
    urls: tuple[str, ...], seconds: int
) -> None:
    """Only after that time does the client notice that this master is frozen."""
    for operation in (operations.wait(JOB), operations.replacement(JOB, TRIGGER)):
        call = first_call(operation, Masters(urls))
        assert (call.query["wait"], call.waits) == (str(seconds), seconds)
