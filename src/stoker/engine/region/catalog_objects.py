"""What a SQL statement or a call would leave in a catalog: tables, views, functions, databases.

This is no SQL parser. It reads the first words of a statement, which name what is created. In a
compound statement it reads the first words of each statement inside.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

_TOKEN = re.compile(
    r"""
    (?P<nothing> \s+ | --[^\r\n]* )
    | (?P<comment> /\* )
    | (?P<text> [rR]?'(?:[^'\\]|\\.)*' | [rR]?"(?:[^"\\]|\\.)*" )
    | (?P<name> `(?:[^`]|``)*` )
    | (?P<word> \w+ )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_END = re.compile(r"/\*|\*/")
_TEMPORARY = frozenset({"temp", "temporary"})
_BETWEEN = frozenset(
    {"or", "replace", "refresh", "global", "external", "materialized", "streaming"}
)
_BEFORE_A_STATEMENT = frozenset({"begin", "then", "else", "do", "loop", "repeat"})


class ObjectKind(StrEnum):
    TABLE = "table"
    VIEW = "view"
    FUNCTION = "function"
    DATABASE = "database"


_KINDS = {
    "table": ObjectKind.TABLE,
    "view": ObjectKind.VIEW,
    "function": ObjectKind.FUNCTION,
    "database": ObjectKind.DATABASE,
    "schema": ObjectKind.DATABASE,
    "namespace": ObjectKind.DATABASE,
}


@dataclass(frozen=True)
class CatalogObject:
    """Something that is meant to outlive the session."""

    kind: ObjectKind
    name: tuple[str, ...]
    """Parts of its name; empty if they are known only when the statement runs."""

    @property
    def catalog(self) -> str | None:
        """The first part of a longer name, which may be a catalog."""
        return self.name[0] if len(self.name) > 1 else None

    def __str__(self) -> str:
        return f"the {self.kind} {'.'.join(self.name)}".rstrip()


@dataclass(frozen=True)
class _Symbol:
    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words


_END = _Symbol("end", "")


def object_named(kind: ObjectKind, name: str) -> CatalogObject:
    """The object that a call such as `saveAsTable(name)` creates."""
    return CatalogObject(kind, _name_in(_tokens_of(name)))


def created_by(statement: str) -> list[CatalogObject]:
    """What the statement creates beyond the session; empty for any other statement."""
    tokens = _tokens_of(statement)
    return list(_created_by(tokens))


def _created_by(tokens: Sequence[_Symbol]) -> Iterator[CatalogObject]:
    for start in _statements(tokens):
        rest = tokens[start:]
        first = rest[0]
        if first.is_word("create", "replace"):
            yield from _created(rest[1:])
        elif _runs_literal(rest):
            yield from created_by(_content_of(rest[2].text))


def _runs_literal(tokens: Sequence[_Symbol]) -> bool:
    return (
        len(tokens) > 2
        and tokens[0].is_word("execute")
        and tokens[1].is_word("immediate")
        and tokens[2].kind == "text"
    )


def _statements(tokens: Sequence[_Symbol]) -> Iterator[int]:
    """Where statements begin: one at the start, others only in a compound statement."""
    begins = next((at for at, token in enumerate(tokens) if token.text != ";"), None)
    if begins is None:
        return
    yield begins
    # A label may precede BEGIN.
    if not any(token.is_word("begin") for token in tokens[begins : begins + 3]):
        return
    for at, token in enumerate(tokens[:-1]):
        if token.text == ";" or token.is_word(*_BEFORE_A_STATEMENT):
            yield at + 1


def _created(tokens: Sequence[_Symbol]) -> Iterator[CatalogObject]:
    for at, token in enumerate(tokens):
        word = token.text.lower()
        if token.kind != "word" or word in _TEMPORARY:
            return
        if word in _KINDS:
            yield CatalogObject(_KINDS[word], _name_in(_without_condition(tokens[at + 1 :])))
            return
        if word not in _BETWEEN:
            return


def _without_condition(tokens: Sequence[_Symbol]) -> Sequence[_Symbol]:
    words = [token.text.lower() for token in tokens[:3]]
    return tokens[3:] if words == ["if", "not", "exists"] else tokens


def _name_in(tokens: Sequence[_Symbol]) -> tuple[str, ...]:
    parts: list[str] = []
    for at in range(0, len(tokens), 2):
        token = tokens[at]
        following = tokens[at + 1] if at + 1 < len(tokens) else _END
        if token.is_word("identifier") and following.text == "(":
            return ()
        if token.kind not in ("word", "name"):
            break
        is_quoted = token.kind == "name"
        parts.append(token.text[1:-1].replace("``", "`") if is_quoted else token.text)
        if following.text != ".":
            break
    return tuple(parts)


def _content_of(literal: str) -> str:
    if literal[0] in "rR":
        return literal[2:-1]
    return re.sub(r"\\(.)", r"\1", literal[1:-1], flags=re.DOTALL)


def _tokens_of(statement: str) -> list[_Symbol]:
    tokens: list[_Symbol] = []
    position = 0
    while position < len(statement):
        found = _TOKEN.match(statement, position)
        assert found is not None
        assert found.lastgroup is not None
        position = found.end()
        if found.lastgroup == "comment":
            position = _end_of_comment(statement, position)
        elif found.lastgroup != "nothing":
            tokens.append(_Symbol(found.lastgroup, found[0]))
    return tokens


def _end_of_comment(statement: str, position: int) -> int:
    """Spark's comments can contain comments."""
    depth = 1
    while depth:
        found = _COMMENT_END.search(statement, position)
        if found is None:
            return len(statement)
        depth += 1 if found[0] == "/*" else -1
        position = found.end()
    return position
