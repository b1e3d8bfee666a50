"""Translation of kazoo's errors into those of the coordinator contract."""

from typing import Final

from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotReadOnlyCallError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)

from stoker.core.errors import (
    ConnectionLost,
    CoordinatorUnavailable,
    InvalidInput,
    KeyExists,
    NoSuchKey,
    SessionExpired,
    StokerError,
    VersionMismatch,
)
from stoker.ha.coordinator import Check, Delete, Op, Put

_REFUSALS: Final = (SessionExpiredError, BadArgumentsError, NoAuthError, NotReadOnlyCallError)
"""Errors that refuse a whole request, with nothing applied."""


def refusal_of(op: Op, error: KazooException) -> StokerError:
    """Why a transaction with this operation was refused."""
    match error:
        case NodeExistsError():
            return KeyExists(op.key)
        case NoNodeError():
            return NoSuchKey(op.key)
        case BadVersionError() if isinstance(op, Check | Put | Delete) and op.version is not None:
            return VersionMismatch(op.key, op.version)
        case _:
            return failure_of(error, f"{type(op).__name__} of {op.key}")


def is_beside_the_point(error: object) -> bool:
    """Whether an operation failed only because another one of its transaction did."""
    return isinstance(error, RolledBackError | RuntimeInconsistency)


def failure_of(error: Exception, what: str) -> StokerError:
    """The error of a call that changes nothing, or of a write that was refused."""
    match error:
        case SessionExpiredError():
            return session_over()
        case BadArgumentsError():
            return InvalidInput(f"ZooKeeper refuses {what}: it allows no such characters")
        case NoAuthError() | AuthFailedError():
            return CoordinatorUnavailable(
                f"ZooKeeper does not permit {what}; check the options "
                "high-availability.zookeeper.client.acl, .auth and .sasl"
            )
        case _:
            return CoordinatorUnavailable(
                f"{what} failed: no contact with ZooKeeper ({_describe(error)}); try again later"
            )


def failure_of_write(error: Exception) -> StokerError:
    """The error of a write without an answer, or with one that leaves its outcome unknown."""
    if isinstance(error, _REFUSALS):
        return failure_of(error, "the write")
    return ConnectionLost(
        f"contact with ZooKeeper was lost while writing ({_describe(error)}); "
        "read back what is there"
    )


def is_loss_of_contact(error: Exception) -> bool:
    return isinstance(error, ConnectionLoss)


def session_over() -> SessionExpired:
    return SessionExpired("the session with ZooKeeper has ended; open another one")


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
