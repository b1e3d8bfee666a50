"""Parameters of requests: in the path, in the query, or as fields of a JSON body.

Flink's clients send parameters as JSON, a person with curl writes them into the query. Both mean
the same, so `read_fields` joins them, the query first, and each `get_…` accepts either form.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import msgspec

from stoker.core.errors import InvalidInput
from stoker.core.ids import JobId, is_hex_id
from stoker.core.states import JobStatus
from stoker.core.values import decode_json
from stoker.rest.http.asgi import Request
from stoker.rest.http.routing import PathParameter

JobIdText = Annotated[str, PathParameter(description="32 hexadecimal digits, the id of a job")]

VertexIdText = Annotated[
    str, PathParameter(description="32 hexadecimal digits, the id of a vertex")
]
TaskManagerIdText = Annotated[str, PathParameter(description="id of a task executor")]

_MAX_DIGITS = 18


def parse_hex_id(text: str, name: str) -> str:
    """The id in lower case; `name` says in a refusal which id is meant, as in "a job id"."""
    lowered = text.lower()
    if not is_hex_id(lowered):
        raise InvalidInput(f"{name} is 32 hexadecimal digits, found {text!r}")
    return lowered


def parse_job_id(text: str) -> JobId:
    return JobId(parse_hex_id(text, "a job id"))


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
    return parse_hex_id(text, "a vertex id")


def parse_count(text: str, parameter: str) -> int:
    """A whole number from 0 on, of at most 18 digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise InvalidInput(f"{parameter} must be a whole number from 0 on, found {text!r}")
    return int(text)


def parse_application_id(text: str) -> JobId:
    """Each job is an application of its own with the same id."""
    return JobId(parse_hex_id(text, "an application id"))


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


T = TypeVar("T")

_FLAGS = {"true": True, "false": False}
_SECONDS_PER_DAY = 86400


async def read_json(request: Request) -> dict[str, Any]:
    """A JSON object, empty if there is no body. Raises InvalidInput for anything else."""
    return await read_body(request, dict[str, Any], dict)


async def read_body(request: Request, kind: type[T], otherwise: type[T]) -> T:
    """The body as a value of this type; unknown fields are ignored, as in Flink."""
    content = await request.body()
    if not content.strip():
        return otherwise()
    try:
        return decode_json(content, kind)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the body of the request is malformed: {error}") from error


async def read_fields(request: Request) -> dict[str, Any]:
    """The fields of the body and of the query; the query wins."""
    return {**await read_json(request), **request.query}


def get_text(fields: Mapping[str, Any], key: str) -> str | None:
    """None for a missing or empty text."""
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{key} must be a string, found {value!r}")
    return value or None


def get_flag(fields: Mapping[str, Any], key: str) -> bool:
    """A JSON boolean, or `true` or `false` as text. A missing flag, or null, is false."""
    value = fields.get(key)
    if value is None:
        return False
    flag = _FLAGS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise InvalidInput(f"{key} must be true or false, found {value!r}")
    return flag


def get_seconds(fields: Mapping[str, Any], key: str) -> float | None:
    """A number of seconds from 0 to a day, also as text. None for a missing one."""
    value = fields.get(key)
    if value is None:
        return None
    try:
        seconds = float("nan" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        seconds = float("nan")
    if not 0 <= seconds <= _SECONDS_PER_DAY:
        raise InvalidInput(f"{key} must be a number of seconds from 0 to a day, found {value!r}")
    return seconds
