"""A tokenizer for Spark's SQL, just good enough to know what is code and what is not."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    WORD = "word"
    NAME = "name"
    """In backticks; may be any text."""
    STRING = "string"
    COMMENT = "comment"
    SPACE = "space"
    SYMBOL = "symbol"


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    start: int

    @property
    def word(self) -> str:
        """The keyword in upper case; empty for all that is not a bare word."""
        return self.text.upper() if self.kind is Kind.WORD else ""

    @property
    def is_code(self) -> bool:
        return self.kind is not Kind.COMMENT and self.kind is not Kind.SPACE


class Unterminated(ValueError):
    def __init__(self, what: str, line: int) -> None:
        super().__init__(f"the {what} that begins in line {line} does not end")
        self.what = what
        self.line = line


_SIMPLE = (
    (Kind.SPACE, re.compile(r"\s+")),
    # A backslash at the end of the line carries a comment on to the next one.
    (Kind.COMMENT, re.compile(r"--(?:\\\n|[^\n])*")),
    (Kind.STRING, re.compile(r"[rR]'[^']*'|[rR]\"[^\"]*\"")),
    (Kind.STRING, re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)),
    (Kind.NAME, re.compile(r"`(?:``|[^`])*`")),
    (Kind.WORD, re.compile(r"\w+")),
)
_OPENINGS = {"'": "string", '"': "string", "`": "quoted name"}
_BRACKET = re.compile(r"/\*|\*/")


def tokens(text: str) -> Iterator[Token]:
    """All of the text, piece by piece; joined together they give it back."""
    position = 0
    while position < len(text):
        token = _token_at(text, position)
        yield token
        position += len(token.text)


def _token_at(text: str, position: int) -> Token:
    if text.startswith("/*", position):
        end = _end_of_bracketed_comment(text, position)
        return Token(Kind.COMMENT, text[position:end], position)
    for kind, pattern in _SIMPLE:
        match = pattern.match(text, position)
        if match is not None:
            return Token(kind, match.group(), position)
    what = _OPENINGS.get(text[position])
    if what is not None:
        raise Unterminated(what, line_of(text, position))
    return Token(Kind.SYMBOL, text[position], position)


def _end_of_bracketed_comment(text: str, start: int) -> int:
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket.group() == "/*" else -1
        if depth == 0:
            return bracket.end()
    raise Unterminated("comment", line_of(text, start))


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
