"""Frames: the messages between two services, as bytes.

An error arrives with the type and message that it was raised with, if both ends know its type; a
peer of an older version gets the nearest ancestor that it knows.
"""

import builtins
import traceback
from typing import Any

import msgspec

from stoker.core.errors import InvalidInput, RemoteError, StokerError, TooLarge
from stoker.core.values import FencingToken, Value
from stoker.rpc.interface import Method

_NOT_TO_BE_RAISED_AGAIN = (StopIteration, StopAsyncIteration, BaseExceptionGroup)
"""A coroutine cannot raise the first two; a group contains other errors."""

_SUMMARY_LENGTH = 1000


class EncodedError(Value):
    kinds: tuple[str, ...]
    """The class and its ancestors up to the root of the error tree, so that an older peer knows at
    least one of them. For a built-in exception a single name."""
    message: str
    facts: dict[str, Any] = {}
    arguments: tuple[Any, ...] | None = None
    """Arguments of a built-in exception; None for a StokerError."""
    trace: str = ""


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=str)


def _builtin_arguments(error: BaseException) -> tuple[Any, ...]:
    if isinstance(error, OSError) and error.filename is not None:
        return (error.errno, error.strerror, error.filename)
    return error.args


def _is_builtin(error: BaseException) -> bool:
    return (
        type(error).__module__ == "builtins"
        and isinstance(error, Exception)
        and not isinstance(error, _NOT_TO_BE_RAISED_AGAIN)
    )


def _type_name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _tree_kinds(error: StokerError) -> tuple[str, ...]:
    return tuple(kind.__name__ for kind in type(error).__mro__ if issubclass(kind, StokerError))


def describe(error: BaseException) -> EncodedError:
    """Encode an error."""
    if isinstance(error, StokerError):
        return EncodedError(
            kinds=_tree_kinds(error), message=error.message, facts=_plain(error.facts)
        )
    trace = "".join(traceback.format_exception(error))
    if not _is_builtin(error):
        return _foreign(_type_name(error), str(error), trace)
    arguments = tuple(_plain(argument) for argument in _builtin_arguments(error))
    kind = type(error).__name__
    return EncodedError(kinds=(kind,), message=str(error), arguments=arguments, trace=trace)


def summarize(error: BaseException) -> EncodedError:
    """Encode an error whose full description is too long or cannot be encoded."""
    words = str(error)[:_SUMMARY_LENGTH].encode("ascii", "backslashreplace").decode()
    if isinstance(error, StokerError):
        return EncodedError(kinds=_tree_kinds(error), message=words)
    return _foreign(_type_name(error), words, "")


def _foreign(type_name: str, message: str, trace: str) -> EncodedError:
    return EncodedError(
        kinds=(RemoteError.__name__,),
        message=f"{type_name}: {message}" if message else type_name,
        facts={"type": type_name, "traceback": trace},
    )


def _known_kinds(root: type[StokerError]) -> dict[str, type[StokerError]]:
    kinds = {root.__name__: root}
    for child in root.__subclasses__():
        kinds = _known_kinds(child) | kinds
    return kinds


def _restore_stoker_error(failure: EncodedError) -> StokerError | None:
    known = _known_kinds(StokerError)
    for name in failure.kinds:
        if name in known:
            # The constructors of subclasses need not accept message and facts.
            error = known[name].__new__(known[name])
            StokerError.__init__(error, failure.message, **failure.facts)
            return error
    return None


def _restore_builtin(failure: EncodedError) -> Exception | None:
    kind = getattr(builtins, failure.kinds[0], None)
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        return None
    try:
        error = kind(*failure.arguments or ())
    except TypeError:
        return None
    error.add_note(f"At the other end:\n{failure.trace}")
    return error


def restore(failure: EncodedError) -> Exception:
    """The error to raise at this end."""
    if failure.arguments is None:
        error: Exception | None = _restore_stoker_error(failure)
    else:
        error = _restore_builtin(failure)
    if error is not None:
        return error
    foreign = _foreign(failure.kinds[0], failure.message, failure.trace)
    return RemoteError(foreign.message, **foreign.facts)


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


def encode_presence_request(request: PresenceRequest) -> bytes:
    return _encoder.encode(request)


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
    try:
        reply = _replies.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RemoteError(f"the answer of {what} cannot be understood: {error}") from error
    match reply:
        case Raised(failure=failure):
            raise restore(failure)
        case Returned(value=value):
            try:
                return msgspec.msgpack.decode(value, type=result)
            except msgspec.ValidationError as error:
                raise RemoteError(f"{what} answered with a wrong value: {error}") from error
