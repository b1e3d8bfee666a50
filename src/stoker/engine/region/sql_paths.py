"""Relative paths in the text of SQL statements.

A path stands after LOCATION, DIRECTORY and INPATH, in the option `path`, and as the name of a table
of files: parquet.`data/x`. A path that is computed (IDENTIFIER, EXECUTE IMMEDIATE) is not seen.
"""

from stoker.core.spark_paths import is_of_files
from stoker.engine.region.relative_paths import RelativePaths
from stoker.pipeline.sql import Kind, SqlToken, Unterminated, table_positions, tokens

_BEFORE_PATH = frozenset({"LOCATION", "DIRECTORY", "INPATH"})
_OPTIONS = frozenset({"OPTIONS", "WITH"})
_BEFORE_FILES = frozenset({"INTO", "OVERWRITE", "TABLE", "LIKE", "DESCRIBE", "DESC", "USING"})
"""Words besides FROM and JOIN that stand before the name of a table."""


def resolve_sql(query: str, paths: RelativePaths) -> str:
    """The statement with absolute paths; raises CannotRun if the caller's directory is not here."""
    try:
        pieces = list(tokens(query))
    except Unterminated:
        # Spark reports this error, with its place.
        return query
    return "".join(_Statement(pieces, paths).resolved())


class _Statement:
    def __init__(self, pieces: list[SqlToken], paths: RelativePaths) -> None:
        self._texts = [token.text for token in pieces]
        self._where = [index for index, token in enumerate(pieces) if token.is_code]
        self._code = [pieces[index] for index in self._where]
        self._tables = frozenset(table_positions(self._code))
        self._paths = paths

    def resolved(self) -> list[str]:
        brackets: list[str] = []
        """The word before each open bracket."""
        format = ""
        for at, token in enumerate(self._code):
            before = self._word(at - 1)
            if token.text == "(":
                brackets.append(before)
            elif token.text == ")":
                brackets[-1:] = []
            elif before == "USING":
                format = token.text
            if token.kind is Kind.STRING:
                is_option = bool(brackets) and brackets[-1] in _OPTIONS and self._is_path_key(at)
                if before in _BEFORE_PATH or (is_option and is_of_files(format)):
                    self._set(at, _with_prefix(token.text, self._prefix(_content(token.text))))
            elif token.kind is Kind.NAME and self._is_table_of_files(at):
                prefix = self._prefix(token.text[1:-1]).replace("`", "``")
                self._set(at, f"`{prefix}{token.text[1:]}")
        return self._texts

    def _is_path_key(self, at: int) -> bool:
        """Whether the string at this place is the value in `path 'x'` or `'path' = 'x'`."""
        key = at - 2 if at and self._code[at - 1].text == "=" else at - 1
        is_first = key > 0 and self._code[key - 1].text in {"(", ","}
        return is_first and self._code[key].text.strip("'\"`").lower() == "path"

    def _is_table_of_files(self, at: int) -> bool:
        if at < 2 or self._code[at - 1].text != "." or not is_of_files(self._code[at - 2].text):
            return False
        return at - 2 in self._tables or self._word(at - 3) in _BEFORE_FILES

    def _word(self, at: int) -> str:
        return self._code[at].word if at >= 0 else ""

    def _prefix(self, path: str) -> str:
        return self._paths.prefix(path, "SQL")

    def _set(self, at: int, text: str) -> None:
        self._texts[self._where[at]] = text


def _content(literal: str) -> str:
    return literal[2:-1] if literal[0] in "rR" else literal[1:-1]


def _with_prefix(literal: str, prefix: str) -> str:
    if not prefix:
        return literal
    quote = literal[-1]
    content = _content(literal)
    if literal[0] in "rR":
        content = content.replace("\\", "\\\\")
    escaped = prefix.replace("\\", "\\\\").replace(quote, f"\\{quote}")
    return f"{quote}{escaped}{content}{quote}"
