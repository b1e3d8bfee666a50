"""Where in a job an exception arose: the part of the job, and the line in a file or in a query."""

from dataclasses import dataclass

from pyspark.errors import PySparkException

from stoker.core.graph import SqlScript
from stoker.core.headlines import SqlPosition, sql_context, sql_position
from stoker.core.results import Failure
from stoker.engine.failures import failure_of, shortened
from stoker.engine.region.compile import RegionCompiler

_LONGEST_STATEMENT = 500
"""Characters of a failed SQL statement that its failure quotes."""


@dataclass(frozen=True)
class RunningStatement:
    """A statement of a script, by its number, which begins at 1."""

    script: SqlScript
    number: int

    @property
    def text(self) -> str:
        return self.script.statements[self.number - 1]

    def failure_of(self, error: BaseException) -> Failure:
        """The failure, with the place in the file, or with the statement if that is not known."""
        position = _add_sql_context(error, self.text)
        place = f"statement {self.number} of {len(self.script.statements)}"
        if not self.script.lines:
            place += f" in {self.script.file or self.script.name}"
            if position is not None:
                place += f", line {position.line} column {position.column}"
        else:
            line = self.script.lines[self.number - 1]
            if position is None:
                place = f"{self.script.file} line {line}, {place}"
            else:
                line += position.line - 1
                place = f"{self.script.file} line {line} column {position.column}, {place}"
        if position is None:
            place += f": {shortened(self.text.strip())[:_LONGEST_STATEMENT]}"
        return failure_of(error, vertex=place)


def failure_in(compiler: RegionCompiler, error: BaseException) -> Failure:
    """The failure, with the vertex that is at fault and the line in its function or query."""
    name = compiler.vertex_of(error)
    if not name:
        return failure_of(error)
    title = compiler.title(name)
    if (position := _add_sql_context(error, compiler.query(name))) is not None:
        place = f"{title}, line {position.line} column {position.column} of its query"
        return failure_of(error, vertex=place)
    line = compiler.failed_line(name) or None
    if line is None and compiler.at not in ("", name):
        # The frames belong to another vertex, which only uses this one.
        line = ""
    return failure_of(error, vertex=title, definition=compiler.definition(name), line=line)


def _add_sql_context(error: BaseException, query: str) -> SqlPosition | None:
    """Where in the query Spark found the fault; the error gets that line of it as a note.

    Spark adds the text of the query to some of its errors only.
    """
    message = str(error)
    position = sql_position(message) if query and isinstance(error, PySparkException) else None
    if position is not None and "== SQL" not in message:
        error.add_note(sql_context(query, position))
    return position
