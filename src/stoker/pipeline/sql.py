"""Spark SQL as text: the statements of a script, the comments at its head, the tables of a query.

Nothing here parses SQL. To split a script at its semicolons, to read `-- name:`, `-- param:` and
`-- conf:`, and to find the names after FROM and JOIN, it is enough to know which part of the text
is code and which is a string, a quoted name or a comment. The tokenizer tells exactly that. Spark
reports every other error with its own words when the query runs.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from stoker.core.errors import InvalidJobGraph
from stoker.core.faults import Fault, closest
from stoker.pipeline.drafts import JobDraft, ScriptDraft
from stoker.pipeline.texts import refuse


class Kind(Enum):
    WORD = "word"
    NAME = "name"
    """Between backticks, where any text is allowed."""
    STRING = "string"
    COMMENT = "comment"
    SPACE = "space"
    SYMBOL = "symbol"


@dataclass(frozen=True, slots=True)
class SqlToken:
    kind: Kind
    text: str
    start: int

    @property
    def word(self) -> str:
        """A bare word in upper case; empty for a token of any other kind."""
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
    # A backslash at the end of a line continues the comment on the next line.
    (Kind.COMMENT, re.compile(r"--(?:\\\n|[^\n])*")),
    (Kind.STRING, re.compile(r"[rR]'[^']*'|[rR]\"[^\"]*\"")),
    (Kind.STRING, re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)),
    (Kind.NAME, re.compile(r"`(?:``|[^`])*`")),
    (Kind.WORD, re.compile(r"\w+")),
)
_OPENINGS = {"'": "string", '"': "string", "`": "quoted name"}
_BRACKET = re.compile(r"/\*|\*/")


def tokens(text: str) -> Iterator[SqlToken]:
    """The whole text in pieces, including spaces and comments."""
    position = 0
    while position < len(text):
        token = _token_at(text, position)
        yield token
        position += len(token.text)


def _token_at(text: str, position: int) -> SqlToken:
    if text.startswith("/*", position):
        end = _end_of_bracketed_comment(text, position)
        return SqlToken(Kind.COMMENT, text[position:end], position)
    for kind, pattern in _SIMPLE:
        match = pattern.match(text, position)
        if match is not None:
            return SqlToken(kind, match.group(), position)
    what = _OPENINGS.get(text[position])
    if what is not None:
        raise Unterminated(what, line_of(text, position))
    return SqlToken(Kind.SYMBOL, text[position], position)


def _end_of_bracketed_comment(text: str, start: int) -> int:
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket.group() == "/*" else -1
        if depth == 0:
            return bracket.end()
    raise Unterminated("comment", line_of(text, start))


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


SCRIPT_VERTEX = "script"
_DIRECTIVES = ("name", "param", "conf")
_DIRECTIVE = re.compile(r"--\s*([A-Za-z]+)\s*:\s*(.*?)\s*")
_LOOPS = frozenset({"IF", "WHILE", "LOOP", "REPEAT", "FOR"})


@dataclass(frozen=True, slots=True)
class SqlStatement:
    text: str
    line: int
    """Where it begins in its script; the first line is 1."""


def split_statements(script: str) -> list[SqlStatement]:
    """The statements without the semicolons between them; raises Unterminated.

    A compound statement (BEGIN … END) is one statement, with the semicolons inside it.
    """
    statements: list[SqlStatement | None] = []
    current: list[SqlToken] = []
    depth = 0
    for token in tokens(script):
        if token.text == ";" and token.kind is Kind.SYMBOL:
            depth = _depth_of_blocks(current)
            if depth <= 0:
                statements.append(_statement(script, current))
                current = []
                continue
        current.append(token)
    statements.append(_statement(script, current))
    return [statement for statement in statements if statement is not None]


_QUERIES = frozenset(
    {"SELECT", "WITH", "VALUES", "FROM", "TABLE", "SHOW", "DESCRIBE", "DESC", "EXPLAIN"}
)
_CHANGES = frozenset({"INSERT", "MERGE", "UPDATE", "DELETE"})


def returns_rows(statement: str) -> bool:
    """Whether a statement of a script is a query, whose rows somebody may want to see.

    WITH and FROM may also begin a statement that changes a table.
    """
    try:
        code = [token for token in tokens(statement) if token.is_code]
    except Unterminated:
        return False
    first = next((token.word for token in code if token.text != "("), "")
    if first not in _QUERIES:
        return False
    return first not in {"WITH", "FROM"} or not _CHANGES & _words_outside_parentheses(code)


def _words_outside_parentheses(code: list[SqlToken]) -> set[str]:
    depth, words = 0, set()
    for token in code:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            words.add(token.word)
    return words


def script_draft(script: str, *, file: str, default_name: str) -> JobDraft:
    """Raises InvalidJobGraph for an empty script and for a bad comment at its head."""
    try:
        statements = split_statements(script)
        header = list(_header(script))
    except Unterminated as error:
        raise refuse(
            f"{file} line {error.line}", f"the {error.what} does not end", "close it"
        ) from error
    if not statements:
        raise refuse(file, "the script has no statement", "write at least one statement")
    name = default_name
    parameters: dict[str, str | None] = {}
    configuration: dict[str, str] = {}
    faults: list[str] = []
    for line, directive, value in header:
        place = f"{file} line {line}"
        key, equals, rest = (part.strip() for part in value.partition("="))
        if directive == "name":
            name = value
        elif not key or (directive == "conf" and not equals):
            faults.append(
                str(Fault(place, f"'-- {directive}: {value}' has no value", "write key=value"))
            )
        elif directive == "param":
            parameters[key] = rest if equals else None
        elif directive == "conf":
            configuration[key] = rest
        else:
            meant = closest(directive, _DIRECTIVES, likeness=0.7)
            if meant is not None:
                problem = f"unknown comment '-- {directive}:' at the head of the script"
                faults.append(str(Fault(place, problem, f"did you mean '-- {meant}:'?")))
    if faults:
        raise InvalidJobGraph(faults)
    return JobDraft(
        name=name,
        vertices=(
            ScriptDraft(
                name=SCRIPT_VERTEX,
                statements=tuple(statement.text for statement in statements),
                file=file,
                lines=tuple(statement.line for statement in statements),
            ),
        ),
        parameters=parameters,
        parameter_declaration=(
            "declare it at the top of the script: -- param: {name}, and use it as :{name} or "
            "${{{name}}}"
        ),
        configuration=configuration,
    )


def _header(script: str) -> Iterator[tuple[int, str, str]]:
    """Comments of the form `-- word: value` before the first statement, with their lines."""
    for token in tokens(script):
        if token.is_code:
            return
        match = _DIRECTIVE.fullmatch(token.text.rstrip())
        if token.kind is Kind.COMMENT and match is not None:
            yield line_of(script, token.start), match.group(1).lower(), match.group(2)


def _depth_of_blocks(statement: list[SqlToken]) -> int:
    words = [token.word for token in statement if token.is_code]
    texts = [token.text for token in statement if token.is_code]
    first = 2 if len(texts) > 2 and texts[1] == ":" else 0
    if len(words) <= first or words[first] != "BEGIN":
        return 0
    depth = 0
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        after = words[index + 1] if index + 1 < len(words) else ""
        if word == "BEGIN" or (word == "CASE" and before != "END"):
            depth += 1
        elif word == "END" and after not in _LOOPS:
            depth -= 1
    return depth


def _statement(script: str, pieces: list[SqlToken]) -> SqlStatement | None:
    """The statement without surrounding spaces and comments; None if they are all there is."""
    code = [index for index, token in enumerate(pieces) if token.is_code]
    if not code:
        return None
    kept = pieces[code[0] : code[-1] + 1]
    text = "".join(token.text for token in kept)
    return SqlStatement(text=text, line=line_of(script, kept[0].start))


_ENDS_FROM = frozenset(
    {"WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "SORT"}
    | {"CLUSTER", "DISTRIBUTE", "UNION", "INTERSECT", "EXCEPT", "MINUS", "SELECT", "SET", "VALUES"}
)
_BEFORE_TABLE = frozenset({"LATERAL", "ONLY", "STREAM"})


@dataclass(slots=True)
class _Scope:
    """One level of parentheses."""

    in_from: bool = False
    expects_table: bool = False


def tables_read(query: str) -> list[str]:
    """Unqualified names after FROM and JOIN, in order, without those that WITH defines."""
    try:
        code = [token for token in tokens(query) if token.is_code]
    except Unterminated:
        # Spark reports this error, with its place.
        return []
    defined = _defined_by_with(code)
    found: dict[str, None] = {}
    for index in table_positions(code):
        after = code[index + 1].text if index + 1 < len(code) else ""
        name = _unquoted(code[index])
        if after not in {".", "("} and name.lower() not in defined:
            found[name] = None
    return list(found)


def table_positions(code: Sequence[SqlToken]) -> Iterator[int]:
    """The places of the names that follow FROM and JOIN; of a name with dots, of its first part."""
    scopes = [_Scope()]
    for index, token in enumerate(code):
        if _step(scopes, token, code[index - 1] if index else None):
            yield index


def _step(scopes: list[_Scope], token: SqlToken, before: SqlToken | None) -> bool:
    """Advance by one token. True if it stands where a table is named."""
    scope = scopes[-1]
    if token.text == "(":
        scopes.append(_Scope(in_from=scope.expects_table, expects_table=scope.expects_table))
        scope.expects_table = False
    elif token.text == ")":
        if len(scopes) > 1:
            scopes.pop()
    elif token.text == ",":
        scope.expects_table = scope.in_from
    elif token.word == "FROM":
        if before is None or before.word != "DISTINCT":
            scope.in_from = scope.expects_table = True
    elif token.word in {"JOIN", "TABLE"}:
        scope.in_from = scope.expects_table = True
    elif token.word in _ENDS_FROM:
        scope.in_from = scope.expects_table = False
    elif scope.expects_table and token.word not in _BEFORE_TABLE:
        scope.expects_table = False
        return token.kind in {Kind.WORD, Kind.NAME}
    return False


def _defined_by_with(code: list[SqlToken]) -> set[str]:
    """Names of common table expressions: a name, perhaps columns, AS and a parenthesis."""
    if not any(token.word == "WITH" for token in code):
        return set()
    return {
        _unquoted(token).lower()
        for token, following, opening in zip(code, code[1:], code[2:], strict=False)
        if token.kind in {Kind.WORD, Kind.NAME} and following.word == "AS" and opening.text == "("
    }


def _unquoted(token: SqlToken) -> str:
    if token.kind is Kind.NAME:
        return token.text[1:-1].replace("``", "`")
    return token.text
