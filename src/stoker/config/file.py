"""Settings in a YAML file, each with the line it is on, for error messages."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import yaml

from stoker.config.sources import Setting
from stoker.config.values import Raw
from stoker.core.errors import InvalidOption

DEEPEST_NESTING = 20

IsWhole = Callable[[str], bool]
"""Whether a mapping under this key is one value, rather than a level of nested keys."""


def settings_in_file(path: Path, is_whole: IsWhole) -> list[Setting]:
    """Keys may be dotted, nested, or both. Values stay text: the type of the option decides."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidOption(f"{path}{line}: not valid YAML: {error.problem}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidOption(f"the configuration file {path} cannot be read: {error}") from error
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise InvalidOption(
            f"{path}: a mapping of keys to values is expected, such as rest.bind-port: 8081"
        )
    settings = list(_flattened(root, "", path, is_whole, depth=0))
    _refuse_repetition(settings)
    return settings


def _flattened(
    node: yaml.MappingNode, prefix: str, path: Path, is_whole: IsWhole, depth: int
) -> Iterator[Setting]:
    if depth > DEEPEST_NESTING:
        raise InvalidOption(f"{path}:{node.start_mark.line + 1}: nested too deeply")
    for key_node, value in node.value:
        place = f"{path}:{key_node.start_mark.line + 1}"
        if not isinstance(key_node, yaml.ScalarNode):
            raise InvalidOption(f"{place}: a key must be text")
        key = f"{prefix}{key_node.value}"
        if isinstance(value, yaml.MappingNode) and not is_whole(key):
            yield from _flattened(value, f"{key}.", path, is_whole, depth + 1)
        else:
            yield Setting(key=key, raw=_plain(value, key, place), place=place)


def _plain(node: yaml.Node, key: str, place: str) -> Raw:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if isinstance(node, yaml.SequenceNode):
        return [_scalar(item, key, place) for item in node.value]
    return {_scalar(name, key, place): _scalar(value, key, place) for name, value in node.value}


def _scalar(node: yaml.Node, key: str, place: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise InvalidOption(f"{place}: {key} holds something nested; plain values are expected")
    return str(node.value)


def _refuse_repetition(settings: Iterable[Setting]) -> None:
    seen: dict[str, Setting] = {}
    for setting in settings:
        first = seen.setdefault(setting.key, setting)
        if first is not setting:
            raise InvalidOption(
                f"{setting.place}: {setting.key} was set before at {first.place}; remove one",
                key=setting.key,
            )
