"""Turns an HTTP answer into its value, or into the error that it reports."""

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from stoker.api.shape import Errors
from stoker.client.options import ClientOptions
from stoker.client.steps import RestCall
from stoker.core.errors import (
    AccessDenied,
    CallTimedOut,
    Conflict,
    InvalidInput,
    LimitReached,
    NotFound,
    RemoteError,
    StokerError,
    StorageFull,
    TooLarge,
    Unavailable,
)
from stoker.core.values import decode_json

T = TypeVar("T")

_BY_STATUS: dict[int, type[StokerError]] = {
    # From a port that speaks TLS: the client was told another scheme.
    307: InvalidInput,
    400: InvalidInput,
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    408: CallTimedOut,
    409: Conflict,
    413: TooLarge,
    429: LimitReached,
    503: Unavailable,
    504: CallTimedOut,
    507: StorageFull,
}


@dataclass(frozen=True, kw_only=True)
class MasterAnswer:
    status: int
    body: bytes
    retry_after: str | None = None
    """Value of the header of this name."""

    @property
    def may_be_repeated(self) -> bool:
        """Whether the same call may succeed a moment later: no master leads, or too many requests.

        A 429 without a time is of a limit that waiting alone does not help.
        """
        return self.status == 503 or (self.status == 429 and self.retry_after is not None)


def value_of(call: RestCall[T], status: int, body: bytes) -> T:
    if 200 <= status < 300:
        return call.read(body)
    raise error_of(status, body)


def error_of(status: int, body: bytes) -> StokerError:
    try:
        message = "; ".join(decode_json(body, Errors).errors)
    except msgspec.DecodeError:
        message = f"HTTP status {status}: {body[:200].decode(errors='replace')}"
    return _BY_STATUS.get(status, RemoteError)(message, status=status)


def answer_too_large(options: ClientOptions) -> TooLarge:
    return TooLarge(
        f"the answer is larger than {options.max_content_length} bytes; "
        "raise rest.client.max-content-length"
    )


def operation_too_late(options: ClientOptions) -> CallTimedOut:
    return CallTimedOut(
        f"the operation has not ended after {options.operation_timeout.total_seconds():g} s; the "
        "cluster completes it, and stoker savepoint list or stoker checkpoint list shows the "
        "outcome; raise client.operation-timeout to wait longer"
    )


def answer_too_late(url: str, seconds: float) -> CallTimedOut:
    return CallTimedOut(
        f"the master at {url} gave no answer within {seconds:g} s; raise client.timeout, "
        "or look at the master's log"
    )
