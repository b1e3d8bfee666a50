"""Frames: the messages between two services, as bytes."""

from typing import Any

import msgspec

from stoker.core.errors import InvalidInput, RemoteError, TooLarge
from stoker.core.values import FencingToken, Value
from stoker.rpc.failure import EncodedError, describe, restore, summarize
from stoker.rpc.interface import Method


class Handshake(Value, tag="handshake"):
    """Asks whether an endpoint speaks this version and gateway."""

    endpoint: str
    gateway: str
    version: int


class Call(Value, tag="call"):
    endpoint: str
    method: str
    token: FencingToken | None
    timeout_seconds: float
    arguments: msgspec.Raw


class PresenceRequest(Value):
    """Asks for a notice when an endpoint is gone, or is another run than the known one."""

    endpoint: str
    known_life: str = ""


class Returned(Value, tag="returned"):
    value: msgspec.Raw


class Raised(Value, tag="raised"):
    failure: EncodedError


_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Handshake | Call)
_replies = msgspec.msgpack.Decoder(Returned | Raised)


def split_address(address: str) -> tuple[str, str]:
    """`grpc://host:port/name` as the address of the service and the name of the endpoint."""
    scheme, mark, rest = address.partition("://")
    authority, slash, name = rest.partition("/")
    if not (scheme and mark and authority and slash and name):
        raise InvalidInput(
            f"{address!r} is not the address of an endpoint; one looks like grpc://host:port/name"
        )
    return f"{scheme}://{authority}", name


def _check_size(frame: bytes, limit: int, what: str) -> bytes:
    if len(frame) > limit:
        raise TooLarge(
            f"{what} has {len(frame)} bytes and may have {limit}; "
            f"send less, or raise rpc.framesize at both ends",
            size=len(frame),
            limit=limit,
        )
    return frame


def encode_handshake(handshake: Handshake) -> bytes:
    return _encoder.encode(handshake)


def encode_presence_request(hold: PresenceRequest) -> bytes:
    return _encoder.encode(hold)


def decode_presence_request(frame: bytes) -> PresenceRequest:
    return msgspec.msgpack.decode(frame, type=PresenceRequest)


def encode_call(
    method: Method,
    arguments: msgspec.Struct,
    *,
    endpoint: str,
    token: FencingToken | None,
    timeout_seconds: float,
    limit: int,
) -> bytes:
    """TypeError for arguments that cannot be sent, TooLarge for too many bytes."""
    try:
        raw = msgspec.Raw(_encoder.encode(arguments))
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"the arguments of {method.qualified_name} cannot be sent: {error}"
        ) from error
    call = Call(
        endpoint=endpoint,
        method=method.qualified_name.rpartition(".")[2],
        token=token,
        timeout_seconds=timeout_seconds,
        arguments=raw,
    )
    return _check_size(_encoder.encode(call), limit, f"the request of {method.qualified_name}")


def decode_request(frame: bytes) -> Handshake | Call:
    request: Handshake | Call = _requests.decode(frame)
    return request


def decode_arguments(method: Method, call: Call) -> dict[str, Any]:
    try:
        struct = msgspec.msgpack.decode(call.arguments, type=method.arguments)
    except msgspec.ValidationError as error:
        raise TypeError(
            f"{method.qualified_name} was called with a wrong value: {error}"
        ) from error
    return {name: getattr(struct, name) for name in method.arguments.__struct_fields__}


def encode_result(result: Any, what: str, limit: int) -> bytes:
    """Encode the result of a method; if it cannot be sent, an error instead."""
    try:
        frame = _encoder.encode(Returned(value=msgspec.Raw(_encoder.encode(result))))
        return _check_size(frame, limit, f"the answer of {what}")
    except TooLarge as error:
        return encode_error(error, limit)
    except (TypeError, ValueError, OverflowError) as error:
        unfit = TypeError(f"the result of {what} cannot be sent: {error}")
        return encode_error(unfit, limit)


def encode_error(error: BaseException, limit: int) -> bytes:
    """Encode the error of a call; a summary if the whole error cannot be sent."""
    try:
        frame = _encoder.encode(Raised(failure=describe(error)))
        return _check_size(frame, limit, "the error")
    except (TypeError, ValueError, OverflowError, TooLarge):
        return _encoder.encode(Raised(failure=summarize(error)))


def decode_reply(frame: bytes, result: Any, what: str) -> Any:
    """Return the result of the call, or raise its error."""
    match _replies.decode(frame):
        case Raised(failure=failure):
            raise restore(failure)
        case Returned(value=value):
            try:
                return msgspec.msgpack.decode(value, type=result)
            except msgspec.ValidationError as error:
                raise RemoteError(f"{what} answered with a wrong value: {error}") from error
