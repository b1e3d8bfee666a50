"""The JSON body of a request, and fields that may stand in it or in the query.

Flink's clients send parameters as JSON, a person with curl writes them into the query. Both mean
the same, so `read_fields` joins them, the query first, and each `get_…` accepts either form.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from stoker.core.errors import InvalidInput
from stoker.core.values import decode_json
from stoker.rest.http.asgi import Request

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
