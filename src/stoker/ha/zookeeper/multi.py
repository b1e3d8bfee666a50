"""Our transactions as ZooKeeper's."""

from collections.abc import Sequence
from typing import Any, Final, assert_never

from stoker.core.errors import TooLarge
from stoker.ha.coordinator import Check, Create, Delete, Op, Put
from stoker.ha.transaction import check_size, checked_key, refuse_ephemeral
from stoker.ha.zookeeper.failures import is_beside_the_point
from stoker.ha.zookeeper.location import Paths

MAX_TRANSACTION_BYTES: Final = 1_000_000
"""The servers close the connection at a request of a mebibyte, keys and overhead included."""

_ANY: Final = -1
_NEVER: Final = 2**31 - 1
"""A version that no node reaches."""


def check_limits(ops: Sequence[Op], *, auto_renewing: bool) -> None:
    """Refuse what can be refused without asking the servers."""
    if auto_renewing:
        refuse_ephemeral(ops)
    for op in ops:
        checked_key(op.key)
        if isinstance(op, Create | Put):
            check_size(op.key, op.value)
    size = sum(len(op.value) for op in ops if isinstance(op, Create | Put))
    if size > MAX_TRANSACTION_BYTES:
        raise TooLarge(
            f"a transaction writes {size} bytes, more than {MAX_TRANSACTION_BYTES}; "
            "keep big content in the storage and a pointer here"
        )


def commit_async(client: Any, ops: Sequence[Op], paths: Paths) -> Any:
    """Send the transaction; the pending answer of the KazooClient."""
    transaction = client.transaction()
    for op in ops:
        path = paths.of_key(op.key)
        match op:
            case Check(_, version):
                transaction.check(path, _node_version(version))
            case Create(_, value, ephemeral):
                transaction.create(path, value, ephemeral=ephemeral)
            case Put(_, value, version):
                transaction.set_data(path, value, _node_version(version))
            case Delete(_, version):
                transaction.delete(path, _node_version(version))
            case _:
                assert_never(op)
    return transaction.commit_async()


def first_failure(answers: Sequence[Any]) -> int | None:
    """Index of the operation because of which nothing was applied; None if all succeeded."""
    failed = [number for number, answer in enumerate(answers) if isinstance(answer, Exception)]
    telling = [number for number in failed if not is_beside_the_point(answers[number])]
    return next(iter([*telling, *failed]), None)


def version_after(op: Op, answer: Any) -> int:
    match op:
        case Check(_, version):
            return version
        case Create():
            return 0
        case Put():
            return int(answer.version)
        case Delete():
            return -1
        case _:
            assert_never(op)


def _node_version(version: int | None) -> int:
    """ZooKeeper takes -1 for any version; here it is a version that no key has."""
    if version is None:
        return _ANY
    return version if version >= 0 else _NEVER
