"""Errors on the wire: the same type and message at the other end, if both ends know the type."""

import builtins
import traceback
from typing import Any

import msgspec

from stoker.core.errors import RemoteError, StokerError
from stoker.core.values import Value

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
