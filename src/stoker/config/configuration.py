"""The configuration of a process: the value of every option, and where it was set."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from stoker.config.tree import Option, OptionTree
from stoker.config.values import format_value
from stoker.core.errors import InvalidOption
from stoker.core.secrets import MASK, is_secret
from stoker.security.redaction import without_credentials

T = TypeVar("T")

DEFAULT_ORIGIN = "default"
STARTED_ORIGIN = "the start of this process"


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """`values` and `origins` hold only what was set; every other option has its default."""

    tree: OptionTree
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    origins: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings for Spark itself: keys that start with `spark.` and are no options of Stoker."""
    folder_file: Path | None = None
    """The file, if it was read only because it is in the current directory: nobody has named it."""

    def of(self, owner: type[T]) -> T:
        """The options of one part. Raises InvalidOption when they contradict each other."""
        if owner not in self.tree.owners:
            raise ValueError(f"{owner.__name__} is not part of this option tree")
        options = [option for option in self.tree.by_key.values() if option.owner is owner]
        try:
            return owner(**{option.field: self._value(option) for option in options})
        except InvalidOption as error:
            places = [
                f"{option.key} is from {self.origins[option.key]}"
                for option in options
                if option.key in self.origins and option.key in error.message
            ]
            if not places:
                raise
            message = f"{error.message} ({', '.join(places)})"
            raise InvalidOption(message, **error.facts) from error

    def with_values(self, values: Mapping[str, Any]) -> "Configuration":
        """The configuration with values that the process found out, such as a port that it drew."""
        origins = dict.fromkeys(values, STARTED_ORIGIN)
        return replace(self, values={**self.values, **values}, origins={**self.origins, **origins})

    def with_default(self, key: str, value: Any, *, origin: str) -> "Configuration":
        """The same configuration, with this value for an option that is set nowhere."""
        if key in self.values:
            return self
        return replace(
            self, values={**self.values, key: value}, origins={**self.origins, key: origin}
        )

    def is_from_folder(self, key: str) -> bool:
        """Whether the option comes from a stoker.yml that was found in the working directory."""
        return self.folder_file is not None and self.origins.get(key, "").startswith(
            f"{self.folder_file}:"
        )

    def origin(self, key: str) -> str:
        """The place where this option or Spark setting was set, or `default`."""
        if key not in self.tree.by_key and key not in self.spark:
            raise InvalidOption(f"there is no option {key}", key=key)
        return self.origins.get(key, DEFAULT_ORIGIN)

    def redacted(self) -> dict[str, str]:
        """Every option and Spark setting as text, with secrets masked."""
        texts = {
            option.key: _redacted_text(option, self._value(option))
            for option in self.tree.by_key.values()
        }
        for key, text in self.spark.items():
            texts[key] = MASK if is_secret(key) else without_credentials(text)
        return dict(sorted(texts.items()))

    def as_file_text(self) -> str:
        """What was set, including secrets, as the configuration file of another process."""
        return json.dumps(self.as_texts(), indent=2) + "\n"

    def as_texts(self) -> dict[str, str]:
        """What was set, including secrets, in the words in which it can be set again."""
        return {**{key: format_value(value) for key, value in self.values.items()}, **self.spark}

    def default_text(self, key: str) -> str | None:
        """The default in the same words; None for a Spark setting."""
        option = self.tree.by_key.get(key)
        return None if option is None else format_value(option.default)

    def _value(self, option: Option) -> Any:
        return self.values.get(option.key, option.default)


def _redacted_text(option: Option, value: Any) -> str:
    if value is None or value == "":
        return format_value(value)
    if option.secret or is_secret(option.key):
        return MASK
    if isinstance(value, dict):
        value = {name: MASK if is_secret(name) else text for name, text in value.items()}
    return without_credentials(format_value(value))
