"""The option tree: every option of every part, by its key and by its environment variable."""

import dataclasses
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from stoker.config.sources import VARIABLE_PREFIX
from stoker.config.values import is_supported, takes_pairs


def variable_of(key: str) -> str:
    """The environment variable of an option: STOKER_HEARTBEAT_INTERVAL for heartbeat.interval."""
    return VARIABLE_PREFIX + key.replace(".", "_").replace("-", "_").upper()


@dataclass(frozen=True, kw_only=True)
class Option:
    key: str
    owner: type
    """The options class that declares it."""
    field: str
    type: Any
    default: Any
    meaning: str
    secret: bool

    @property
    def part(self) -> str:
        """Section of the reference page: `heartbeat` for a class in stoker.heartbeat.options."""
        *_, package, module = self.owner.__module__.split(".")
        return package if module == "options" else module

    @property
    def variable(self) -> str:
        return variable_of(self.key)


def options_of(owner: type) -> Iterator[Option]:
    types = typing.get_type_hints(owner)
    for field in dataclasses.fields(owner):
        if "key" not in field.metadata:
            raise ValueError(f"{owner.__name__}.{field.name} is not made by option(...)")
        if not is_supported(types[field.name]):
            raise ValueError(
                f"{owner.__name__}.{field.name} has type {types[field.name]}, "
                "which cannot be read from text; see stoker.core.options.option"
            )
        yield Option(
            key=field.metadata["key"],
            owner=owner,
            field=field.name,
            type=types[field.name],
            default=_default_of(field),
            meaning=field.metadata["meaning"],
            secret=field.metadata["secret"],
        )


def _default_of(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


class OptionTree:
    """All options. No two of them share a key or an environment variable."""

    def __init__(self, owners: Iterable[type]) -> None:
        self.owners = tuple(owners)
        self.by_key: dict[str, Option] = {}
        self.by_variable: dict[str, Option] = {}
        for owner in self.owners:
            for option in options_of(owner):
                self._add(option)

    def _add(self, option: Option) -> None:
        other = self.by_key.get(option.key) or self.by_variable.get(option.variable)
        if other:
            raise ValueError(
                f"option {option.key} of {option.owner.__name__} collides with "
                f"{other.key} of {other.owner.__name__}"
            )
        self.by_key[option.key] = option
        self.by_variable[option.variable] = option

    def holds_pairs(self, key: str) -> bool:
        """Whether a mapping under this key is one value, rather than a level of nested keys."""
        option = self.by_key.get(key)
        return option is not None and takes_pairs(option.type)
