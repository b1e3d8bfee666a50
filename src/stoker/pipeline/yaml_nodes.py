"""Reads YAML with its line numbers, so that each fault says where it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from stoker.core.errors import InvalidJobGraph
from stoker.core.faults import Fault, did_you_mean

_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "timestamp")
)
_BOOL_TAG = "tag:yaml.org,2002:bool"
_NULL_TAG = "tag:yaml.org,2002:null"
_TRUE = frozenset({"true", "yes", "on"})


@dataclass(frozen=True)
class Entry:
    key: str
    line: int
    value: yaml.Node


@dataclass
class YamlReader:
    """Reads values from YAML nodes and collects their faults."""

    file: str
    faults: list[Fault] = field(default_factory=list)

    def root(self, text: str) -> yaml.Node | None:
        try:
            root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
            return root
        except yaml.MarkedYAMLError as error:
            raise InvalidJobGraph([str(self._syntax_fault(error))]) from error
        except yaml.YAMLError as error:
            problem = f"this is not YAML: {error}"
            raise InvalidJobGraph([str(Fault(self.file, problem, "correct it"))]) from error
        except RecursionError as error:
            problem = "it is nested too deeply"
            raise InvalidJobGraph([str(Fault(self.file, problem, "make it flatter"))]) from error

    def place(self, node: yaml.Node) -> str:
        return f"{self.file} line {node.start_mark.line + 1}"

    def fault(self, place: str, problem: str, remedy: str) -> None:
        self.faults.append(Fault(place, problem, remedy))

    def entries(
        self,
        node: yaml.Node,
        what: str,
        known: frozenset[str] | None = None,
        *,
        elsewhere: Mapping[str, str] | None = None,
    ) -> dict[str, Entry]:
        """A mapping with string keys. `elsewhere` has remedies for keys that belong elsewhere."""
        if self.is_null(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            self.fault(self.place(node), f"{what} is {_kind(node)}", "write 'key: value' lines")
            return {}
        found: dict[str, Entry] = {}
        for entry in self._pairs(node, what):
            place = f"{self.file} line {entry.line}"
            if entry.key in found:
                first = found[entry.key].line
                self.fault(
                    place,
                    f"key '{entry.key}' of {what} stands here and in line {first}",
                    "remove one",
                )
            elif known is not None and entry.key not in known:
                remedy = (elsewhere or {}).get(entry.key.lower())
                self.fault(
                    place,
                    f"unknown key '{entry.key}' in {what}",
                    remedy or did_you_mean(entry.key, known),
                )
            else:
                found[entry.key] = entry
        return found

    def text(self, node: yaml.Node, what: str) -> str | None:
        """A scalar as it is written; None for null."""
        if isinstance(node, yaml.ScalarNode):
            if node.tag in _PLAIN_TAGS:
                return str(node.value)
            if node.tag == _BOOL_TAG:
                return "true" if node.value.lower() in _TRUE else "false"
            if node.tag == _NULL_TAG:
                return None
        self.fault(self.place(node), f"{what} is {_kind(node)}", "write a single value")
        return None

    def flag(self, node: yaml.Node, what: str) -> bool:
        if isinstance(node, yaml.ScalarNode) and node.tag == _BOOL_TAG:
            return node.value.lower() in _TRUE
        shown = f"'{node.value}'" if isinstance(node, yaml.ScalarNode) else _kind(node)
        self.fault(self.place(node), f"{what} is {shown}", "write true or false")
        return False

    def number(self, node: yaml.Node, what: str) -> float | int:
        value = self.text(node, what)
        for kind in (int, float):
            try:
                return kind(value or "")
            except ValueError:
                continue
        self.fault(self.place(node), f"{what} is '{value}'", "write a number")
        return 0

    def whole_number(self, node: yaml.Node, what: str) -> int:
        number = self.number(node, what)
        if isinstance(number, int):
            return number
        self.fault(self.place(node), f"{what} is not a whole number", "write one")
        return 0

    def texts(self, node: yaml.Node, what: str) -> list[str]:
        """A list of scalars; a single one counts as a list of one."""
        if self.is_null(node):
            return []
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        values = [self.text(item, f"an item of {what}") for item in items]
        return [value for value in values if value is not None]

    @staticmethod
    def is_null(node: yaml.Node) -> bool:
        return isinstance(node, yaml.ScalarNode) and node.tag == _NULL_TAG

    def _pairs(self, node: yaml.MappingNode, what: str) -> Iterator[Entry]:
        for key_node, value in node.value:
            key = self.text(key_node, f"a key of {what}")
            if key is not None:
                yield Entry(key, key_node.start_mark.line + 1, value)

    def _syntax_fault(self, error: yaml.MarkedYAMLError) -> Fault:
        mark = error.problem_mark or error.context_mark
        place = self.file
        if mark is not None:
            place = f"{self.file} line {mark.line + 1} column {mark.column + 1}"
        problem = error.problem or "it cannot be read"
        if "'\\t'" in problem:
            return Fault(place, "a tab is used for indentation", "indent with spaces")
        context = f" {error.context}" if error.context else ""
        return Fault(place, f"this is not YAML: {problem}{context}", "correct it")


def _kind(node: yaml.Node) -> str:
    match node:
        case yaml.MappingNode():
            return "a mapping"
        case yaml.SequenceNode():
            return "a list"
        case yaml.ScalarNode(tag=tag) if tag in _PLAIN_TAGS or tag == _BOOL_TAG:
            return f"the value '{node.value}'"
        case yaml.ScalarNode(tag=tag) if tag == _NULL_TAG:
            return "empty"
        case _:
            return f"of the unknown type {node.tag}"
