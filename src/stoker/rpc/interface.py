"""The methods of a gateway class, read from its annotations for both ends of a call."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, get_type_hints

import msgspec


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method of a gateway: the types of its arguments and its result on the wire."""

    qualified_name: str
    signature: inspect.Signature
    by_position: tuple[str, ...]
    """Parameters that can be passed by position."""
    arguments: type[msgspec.Struct]
    result: Any

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> msgspec.Struct:
        """The arguments of a call as one struct; TypeError when they do not fit the signature."""
        if len(args) <= len(self.by_position):
            given = dict(zip(self.by_position, args, strict=False))
            with contextlib.suppress(TypeError):
                return self.arguments(**given, **kwargs)
        # The signature explains what is wrong, but takes longer.
        return self.arguments(**self.signature.bind(*args, **kwargs).arguments)


@dataclass(frozen=True, kw_only=True)
class Interface:
    names: frozenset[str]
    """The gateway and every Protocol that it extends; a peer may ask for any of them."""
    methods: Mapping[str, Method]


def _field(parameter: inspect.Parameter, kind: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is inspect.Parameter.empty:
        return (parameter.name, kind)
    # A factory, because the default of a struct field may not be a non-empty list or dict.
    return (parameter.name, kind, msgspec.field(default_factory=lambda: parameter.default))


def _read_method(gateway: type, name: str, function: Callable[..., Any]) -> Method:
    qualified_name = f"{gateway.__name__}.{name}"
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{qualified_name} must be `async def` to be called through a gateway")
    hints = get_type_hints(function)
    full = inspect.signature(function)
    parameters = list(full.parameters.values())[1:]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{qualified_name} must name each of its parameters")
        if parameter.name not in hints:
            raise TypeError(f"{qualified_name} must say the type of {parameter.name}")
    if "return" not in hints:
        raise TypeError(f"{qualified_name} must say the type of its result")
    fields = [_field(parameter, hints[parameter.name]) for parameter in parameters]
    return Method(
        qualified_name=qualified_name,
        signature=full.replace(parameters=parameters),
        by_position=tuple(each.name for each in parameters if each.kind is not each.KEYWORD_ONLY),
        arguments=msgspec.defstruct(name, fields, kw_only=True, frozen=True),
        result=hints["return"],
    )


@functools.cache
def read_interface(gateway: type) -> Interface:
    """Read a gateway class; TypeError, naming the method, if it cannot be a gateway."""
    protocols = [
        parent
        for parent in gateway.__mro__
        if getattr(parent, "_is_protocol", False) and parent is not Protocol
    ]
    functions: dict[str, Callable[..., Any]] = {}
    for parent in protocols:
        for name, attribute in vars(parent).items():
            if inspect.isfunction(attribute) and not name.startswith("_"):
                functions.setdefault(name, attribute)
    if not functions:
        raise TypeError(f"{gateway.__name__} is not a Protocol with `async def` methods")
    methods = {name: _read_method(gateway, name, function) for name, function in functions.items()}
    return Interface(names=frozenset(p.__name__ for p in protocols), methods=methods)
