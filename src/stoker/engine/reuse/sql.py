"""Which tables and views a SQL query names, and whether it calls only Spark's own functions.

This is no SQL parser. It understands the common forms of a query and answers "unknown" for
everything else. The invariant: it never overlooks a name.
"""

import re
from dataclasses import dataclass
from enum import Enum

import pyspark.sql.functions

_TOKEN = re.compile(
    r"""
    (?P<nothing> \s+ | --[^\r\n]* | /\*(?:(?!/\*).)*?\*/ )
    | (?P<text> '[^']*' | "[^"]*" )
    | (?P<name> `[^`]+` )
    | (?P<word> [A-Za-z_]\w* )
    | (?P<number> \d\w* )
    | (?P<sign> (?!/\*) [-+*/%=<>!,.()\[\]:&^~|] )
    """,
    re.VERBOSE | re.DOTALL,
)
_REFUSED_WORDS = """
    with recursive table identifier values stream insert into overwrite update delete merge
"""
"""Keywords that make the query something other than a plain SELECT."""
_WORDS_BEFORE_A_BRACKET = """
    all and any as between by case cast distinct else escape exists extract filter from if in join
    like ilike rlike not on or over select some then try_cast using when where having limit offset
    union intersect except minus
"""
"""Keywords after which a bracket does not open a function call."""
_NOT_SQL_FUNCTIONS = """
    arrow_udf arrow_udtf asc broadcast call_function call_udf col column desc expr lit pandas_udf
    udf udtf
"""
"""Python functions that are not SQL functions: a user may have registered one by that name."""
_REFUSED = frozenset(_REFUSED_WORDS.split())
_BEFORE_BRACKETS = frozenset(_WORDS_BEFORE_A_BRACKET.split())
_FUNCTIONS = frozenset(filter(str.islower, pyspark.sql.functions.__all__)) - frozenset(
    _NOT_SQL_FUNCTIONS.split()
)
_SET_OPERATIONS = frozenset({"union", "intersect", "except", "minus"})
_WITHOUT_COMMAS = frozenset({"where", "having", "limit", "offset"})
_WITH_BY = frozenset({"group", "order", "sort", "distribute", "cluster"})
_KEYWORDS = _REFUSED | _BEFORE_BRACKETS | _WITH_BY
_TABLE_FUNCTIONS = frozenset({"range"})
_TYPES = frozenset({"char", "dec", "decimal", "numeric", "varchar", "values"})
"""Types with arguments, and `VALUES`: no function calls."""


class _Unknown(Exception):
    pass


class _Clause(Enum):
    FROM = "from"
    """A comma precedes another relation."""
    LIST = "list"
    CONDITION = "condition"
    """Contains no commas."""


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text == word

    def is_sign(self, sign: str) -> bool:
        return self.kind == "sign" and self.text == sign

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "name")


_END = _Token("end", "")


def relations_in(query: str) -> frozenset[str] | None:
    """Lower-case names of the tables and views; None if unknown.

    Leaves out the common table expressions that the query itself defines.
    """
    try:
        return _Query(_tokens_of(query)).relations()
    except _Unknown:
        return None


def names_no_relation(expression: str) -> bool:
    """Whether an expression, which may contain a query, names no table or view."""
    try:
        return not _Query(_tokens_of(expression)).relations_of_expression()
    except _Unknown:
        return False


def calls_only_spark(text: str) -> bool:
    """Whether a statement or expression calls no function that a user may have made.

    Such a function can be permanent: Spark loads its jar wherever the function is called.
    """
    try:
        tokens = _tokens_of(text)
    except _Unknown:
        return False
    before = [_END, *tokens]
    return not any(
        token.is_name and following.is_sign("(") and (last.is_sign(".") or not _is_known(token))
        for last, token, following in zip(before, tokens, tokens[1:], strict=False)
    )


def _is_known(called: _Token) -> bool:
    known = _FUNCTIONS | _BEFORE_BRACKETS | _TABLE_FUNCTIONS | _TYPES
    return called.kind == "word" and called.text in known


def _tokens_of(query: str) -> list[_Token]:
    # Escapes, variables and pipes: how Spark reads these is not imitated here.
    if any(sign in query for sign in ("\\", "$", "|>", "``")):
        raise _Unknown
    tokens: list[_Token] = []
    position = 0
    while position < len(query):
        found = _TOKEN.match(query, position)
        if found is None or found.lastgroup is None:
            raise _Unknown
        position = found.end()
        text = found[0].strip("`").lower() if found.lastgroup != "text" else ""
        if found.lastgroup != "nothing":
            tokens.append(_Token(found.lastgroup, text))
    return tokens


def _expect(expected: bool) -> None:
    if not expected:
        raise _Unknown


class _Query:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._position = 0
        self._defined: set[str] = set()
        self._found: set[str] = set()

    def relations(self) -> frozenset[str]:
        if self._next.is_word("with"):
            self._definitions()
        _expect(self._begins_query)
        return self.relations_of_expression()

    def relations_of_expression(self) -> frozenset[str]:
        self._body()
        _expect(self._next is _END)
        return frozenset(self._found)

    @property
    def _begins_query(self) -> bool:
        return self._next.is_word("select") or self._next.is_word("from")

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _take(self) -> _Token:
        token = self._next
        self._position += 1
        return token

    def _definitions(self) -> None:
        """The common table expressions; each is visible to those after it."""
        another = True
        while another:
            self._take()
            name = self._take()
            _expect(name.is_name and name.text not in _REFUSED)
            _expect(self._take().is_word("as") and self._take().is_sign("("))
            _expect(self._begins_query)
            self._body()
            _expect(self._take().is_sign(")"))
            self._defined.add(name.text)
            another = self._next.is_sign(",")

    def _body(self) -> None:
        """Read up to the closing bracket, or to the end."""
        clause = _Clause.LIST
        while self._next is not _END and not self._next.is_sign(")"):
            token = self._take()
            if token.is_sign("("):
                self._brackets()
            elif token.is_sign(","):
                _expect(clause is not _Clause.CONDITION)
                if clause is _Clause.FROM:
                    self._relation()
            else:
                clause = self._clause_after(token, clause)

    def _is_field(self) -> bool:
        """Whether the last token is a field as in `t.from`, and therefore no keyword."""
        if self._position < 3 or not self._tokens[self._position - 2].is_sign("."):
            return False
        before = self._tokens[self._position - 3]
        return before.is_name or before.is_sign(")") or before.is_sign("]")

    def _clause_after(self, token: _Token, clause: _Clause) -> _Clause:
        if token.kind != "word" or self._is_field():
            _expect(not (token.is_name and self._next.is_sign("(")))
            return clause
        word = token.text
        _expect(word not in _REFUSED)
        if self._next.is_sign("("):
            _expect(word in _FUNCTIONS or word in _BEFORE_BRACKETS)
        if word in ("from", "join"):
            self._relation()
            return _Clause.FROM
        if word == "select" or word in _SET_OPERATIONS or word in _WITHOUT_COMMAS:
            # Otherwise it is a column named like a keyword.
            _expect(not self._next.is_sign(","))
            return _Clause.CONDITION if word in _WITHOUT_COMMAS else _Clause.LIST
        if word in _WITH_BY and clause is not _Clause.LIST:
            _expect(self._next.is_word("by"))
            return _Clause.LIST
        return clause

    def _brackets(self) -> None:
        self._body()
        _expect(self._take().is_sign(")"))

    def _relation(self) -> None:
        token = self._take()
        if token.is_word("lateral"):
            token = self._take()
        if token.is_sign("("):
            if self._begins_query:
                self._brackets()
            else:
                self._bracketed_relations()
            return
        _expect(token.kind == "name" or (token.kind == "word" and token.text not in _KEYWORDS))
        _expect(not self._next.is_sign("."))
        if self._next.is_sign("("):
            _expect(token.text in _TABLE_FUNCTIONS)
        elif token.text not in self._defined:
            self._found.add(token.text)

    def _bracketed_relations(self) -> None:
        """Read `(a JOIN b ON …)` after FROM."""
        self._relation()
        clause = _Clause.FROM
        while not self._next.is_sign(")"):
            token = self._take()
            _expect(token is not _END)
            if token.is_sign("("):
                self._brackets()
            elif token.is_sign(","):
                self._relation()
            else:
                clause = self._clause_after(token, clause)
                _expect(clause is _Clause.FROM)
        self._take()
