"""Errors of kazoo are translated into those of the coordinator contract."""

import pytest
from kazoo import exceptions as kazoo

from stoker.core.errors import (
    ConnectionLost,
    CoordinatorUnavailable,
    InvalidInput,
    KeyExists,
    NoSuchKey,
    SessionExpired,
    StokerError,
    TooLarge,
    VersionMismatch,
)
from stoker.ha.coordinator import Check, Create, Delete, Op, Put
from stoker.ha.zookeeper.coordinator import check_limits, first_failure
from stoker.ha.zookeeper.failures import failure_of, failure_of_write, refusal_of


@pytest.mark.parametrize(
    ("error", "of_read", "of_write"),
    [
        (kazoo.ConnectionLoss(), CoordinatorUnavailable, ConnectionLost),
        (kazoo.OperationTimeoutError(), CoordinatorUnavailable, ConnectionLost),
        (kazoo.SessionMovedError(), CoordinatorUnavailable, ConnectionLost),
        (TimeoutError(), CoordinatorUnavailable, ConnectionLost),
        (kazoo.NotReadOnlyCallError(), CoordinatorUnavailable, CoordinatorUnavailable),
        (kazoo.NoAuthError(), CoordinatorUnavailable, CoordinatorUnavailable),
        (kazoo.SessionExpiredError(), SessionExpired, SessionExpired),
        (kazoo.ConnectionClosedError(), SessionExpired, SessionExpired),
        (kazoo.BadArgumentsError(), InvalidInput, InvalidInput),
    ],
)
def test_only_a_write_without_an_answer_has_an_unknown_outcome(
    error: Exception, of_read: type[StokerError], of_write: type[StokerError]
):
    assert type(failure_of(error, "reading a")) is of_read
    assert type(failure_of_write(error)) is of_write


@pytest.mark.parametrize(
    ("op", "error", "expected"),
    [
        (Create("a", b""), kazoo.NodeExistsError(), KeyExists),
        (Put("a", b""), kazoo.NoNodeError(), NoSuchKey),
        (Delete("a", 3), kazoo.BadVersionError(), VersionMismatch),
        (Check("a", 3), kazoo.BadVersionError(), VersionMismatch),
        (Put("a", b""), kazoo.NotReadOnlyCallError(), CoordinatorUnavailable),
    ],
)
def test_a_refusal_names_the_key(op: Op, error: Exception, expected: type[StokerError]):
    refusal = refusal_of(op, error)
    assert type(refusal) is expected
    assert refusal.facts.get("key", "a") == "a"


def test_the_operation_that_made_a_transaction_fail_is_identified():
    fell, after = kazoo.RolledBackError(), kazoo.RuntimeInconsistency()
    assert first_failure([fell, kazoo.BadVersionError(), after]) == 1
    assert first_failure([fell, after]) == 0
    assert first_failure(["/path", True]) is None


def test_a_transaction_that_is_too_large_for_any_server_is_refused():
    half = b"x" * 512 * 1024
    with pytest.raises(TooLarge, match="storage"):
        check_limits([Create("a", half), Create("b", half)], auto_renewing=False)
