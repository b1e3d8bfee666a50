"""Reads a pickled function of a job as data. Nothing of the job runs, and nothing is imported.

Unpickling runs code: a pickle may name any function and call it. What is decided about a job before
its code runs must therefore not unpickle it. Here the constructors of cloudpickle have stand-ins
that only describe a function, and every other name stays a name. A pickle that calls or changes
what it names cannot be read.
"""

import io
import pickle
import sys
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Never

_CLOUDPICKLE = frozenset({"pyspark.cloudpickle.cloudpickle", "cloudpickle.cloudpickle"})
_STATE = frozenset(
    {
        "__annotations__",
        "__closure__",
        "__defaults__",
        "__doc__",
        "__globals__",
        "__kwdefaults__",
        "__module__",
        "__name__",
        "__qualname__",
        "__type_params__",
        "_cloudpickle_submodules",
    }
)


class _Unreadable(pickle.UnpicklingError):
    """The pickle does more than to make a function."""


class _Inert:
    """Cannot be changed by the pickle that it comes from."""

    __slots__ = ()

    def __setstate__(self, state: object) -> Never:
        raise _Unreadable("the pickle changes an object that it names")


@dataclass(frozen=True)
class PickledName(_Inert):
    """A module, or a name in it, to which the pickle refers."""

    module: str
    name: str = ""

    def loaded(self) -> Any:
        """What it names if that is loaded already; None otherwise."""
        module = sys.modules.get(self.module)
        return getattr(module, self.name, None) if self.name else module


@dataclass(eq=False)
class PickledFunction(_Inert):
    code: CodeType
    has_values: bool = False
    """Whether it has default values, a closure or attributes, any of which may run code."""
    variables: dict[str, object] = field(default_factory=dict)
    """The global variables that it uses. A `PickledName` stands for what is not plain data."""
    names: tuple[PickledName, ...] = ()
    """Everything to which the pickle refers; loading the function imports their modules."""


def read_function(payload: bytes) -> PickledFunction | None:
    """Return None if the pickle is anything but one function by value."""
    reader = _DescribingUnpickler(io.BytesIO(payload))
    try:
        function = reader.load()
    # The bytes come from the job, and may be damaged or hostile in any way.
    except (pickle.UnpicklingError, *_DAMAGES):
        return None
    if not isinstance(function, PickledFunction):
        return None
    function.names = tuple(reader.names)
    return function


_DAMAGES = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    SystemError,
    TypeError,
    ValueError,
)


class _DescribingUnpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO) -> None:
        super().__init__(data)
        self.names: list[PickledName] = []

    def find_class(self, module: str, name: str) -> Any:
        if module not in _CLOUDPICKLE:
            return self._name(PickledName(module, name))
        match name:
            case "_make_function":
                return _make_function
            case "_builtin_type":
                return _builtin_type
            case "_function_setstate":
                return _set_state
            case "subimport":
                return lambda imported: self._name(PickledName(imported))
            case _:
                raise _Unreadable(name)

    def _name(self, name: PickledName) -> PickledName:
        self.names.append(name)
        return name


def _builtin_type(name: str) -> Any:
    if name != "CodeType":
        raise _Unreadable(name)
    return _make_code


def _make_code(*arguments: Any) -> CodeType:
    code = CodeType(*arguments)
    # Python hides specialized instructions and their caches in `co_code`, but would run them.
    if code.co_code not in arguments or code.co_exceptiontable:
        raise _Unreadable("the bytecode is not what a compiler writes for straight code")
    return code


def _make_function(
    code: CodeType, variables: dict[str, object], _name: str, defaults: object, closure: object
) -> PickledFunction:
    if not isinstance(code, CodeType):
        raise _Unreadable("a function without code")
    return PickledFunction(code, bool(defaults or closure), variables=dict(variables))


def _set_state(
    function: PickledFunction, state: tuple[dict[str, object], dict[str, object]]
) -> None:
    if not isinstance(function, PickledFunction):
        raise _Unreadable("the pickle changes an object that it names")
    attributes, slots = state
    if not slots.keys() <= _STATE:
        raise _Unreadable("a function with unknown state")
    values = ("__closure__", "__defaults__", "__kwdefaults__")
    if attributes or any(map(slots.get, values)):
        function.has_values = True
    function.variables.update(slots.get("__globals__") or {})  # type: ignore[call-overload]
