"""The JSON body of a request, where there is one."""

from typing import Any, TypeVar

import msgspec

from stoker.core.errors import InvalidInput
from stoker.core.values import decode_json
from stoker.rest.http.asgi import Request

T = TypeVar("T")


async def read_json(request: Request) -> dict[str, Any]:
    """An object; an empty one for no body. InvalidInput for anything else."""
    return await read_body(request, dict[str, Any], dict)


async def read_body(request: Request, kind: type[T], otherwise: type[T]) -> T:
    """The body as a value of this kind; unknown fields are ignored, as Flink does."""
    content = await request.body()
    if not content.strip():
        return otherwise()
    try:
        return decode_json(content, kind)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the body of the request is not as expected: {error}") from error
