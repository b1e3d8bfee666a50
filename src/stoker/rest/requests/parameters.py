"""Parses parameters of paths and queries."""

from functools import lru_cache
from typing import Annotated

import msgspec

from stoker.core.errors import InvalidInput
from stoker.core.ids import JobId, is_hex_id
from stoker.core.states import JobStatus
from stoker.core.values import decode_json
from stoker.rest.http.routing import PathParameter

JobIdText = Annotated[str, PathParameter(description="32 hexadecimal digits, the id of a job")]

VertexIdText = Annotated[
    str, PathParameter(description="32 hexadecimal digits, the id of a vertex")
]
TaskManagerIdText = Annotated[str, PathParameter(description="id of a task executor")]

_MAX_DIGITS = 18


def parse_job_id(text: str) -> JobId:
    lowered = text.lower()
    if not is_hex_id(lowered):
        raise InvalidInput(f"a job id is 32 hexadecimal digits, found {text!r}")
    return JobId(lowered)


def parse_status(text: str) -> JobStatus:
    try:
        return JobStatus(text.upper())
    except ValueError:
        known = ", ".join(JobStatus)
        raise InvalidInput(f"known must be a state of a job ({known}), found {text!r}") from None


@lru_cache(maxsize=256)
def parse_statuses(text: str) -> tuple[JobStatus, ...]:
    """One state, or several with commas. Cached, since clients poll with the same text."""
    return tuple(parse_status(part) for part in text.split(","))


def parse_vertex_id(text: str) -> str:
    lowered = text.lower()
    if not is_hex_id(lowered):
        raise InvalidInput(f"a vertex id is 32 hexadecimal digits, found {text!r}")
    return lowered


def parse_count(text: str, parameter: str) -> int:
    """A whole number from 0 on, of at most 18 digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise InvalidInput(f"{parameter} must be a whole number from 0 on, found {text!r}")
    return int(text)


def parse_application_id(text: str) -> JobId:
    """Each job is an application of its own with the same id."""
    lowered = text.lower()
    if not is_hex_id(lowered):
        raise InvalidInput(f"an application id is 32 hexadecimal digits, found {text!r}")
    return JobId(lowered)


class _Expiry(msgspec.Struct, rename="camel"):
    expired_timestamp: int


def parse_expiry(body: bytes) -> int:
    """The time until which the client of a job counts as present, in milliseconds since 1970."""
    try:
        return decode_json(body, _Expiry).expired_timestamp
    except msgspec.MsgspecError as error:
        raise InvalidInput(
            f'give ?seconds=N, or send {{"expiredTimestamp": milliseconds}}: {error}'
        ) from error
