"""Which tables a query reads: the names that stand where a table can stand."""

from dataclasses import dataclass

from stoker.pipeline.sql_tokens import Kind, Token, Unterminated, tokens

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
        # Spark will say so, with its own words and the place.
        return []
    defined = _defined_by_with(code)
    found: dict[str, None] = {}
    scopes = [_Scope()]
    for index, token in enumerate(code):
        before = code[index - 1] if index else None
        after = code[index + 1].text if index + 1 < len(code) else ""
        if _step(scopes, token, before) and after not in {".", "("}:
            name = _plain(token)
            if name.lower() not in defined:
                found[name] = None
    return list(found)


def _step(scopes: list[_Scope], token: Token, before: Token | None) -> bool:
    """Follow one token; true when it stands in the place of a table."""
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


def _defined_by_with(code: list[Token]) -> set[str]:
    """Names of common table expressions: a name, perhaps columns, AS and a parenthesis."""
    if not any(token.word == "WITH" for token in code):
        return set()
    return {
        _plain(token).lower()
        for token, following, opening in zip(code, code[1:], code[2:], strict=False)
        if token.kind in {Kind.WORD, Kind.NAME} and following.word == "AS" and opening.text == "("
    }


def _plain(token: Token) -> str:
    if token.kind is Kind.NAME:
        return token.text[1:-1].replace("``", "`")
    return token.text
