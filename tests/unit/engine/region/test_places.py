"""The place of a failure in a script."""

import pytest
from pyspark.errors import AnalysisException

from stoker.core.graph import SqlScript
from stoker.engine.region.places import RunningStatement

STATEMENTS = ("SELECT 1", "SELECT a,\n  nope FROM t")
MISSING = "[UNRESOLVED_COLUMN] no. SQLSTATE: 42703; line 2 pos 2;\n'Project"


@pytest.mark.parametrize(
    ("file", "lines", "message", "place"),
    [
        ("job.sql", (1, 3), MISSING, "job.sql line 4 column 3, statement 2 of 2"),
        ("job.sql", (1, 3), "boom", "job.sql line 3, statement 2 of 2: SELECT a,\n  nope FROM t"),
        ("", (), MISSING, "statement 2 of 2 in script, line 2 column 3"),
        ("", (), "boom", "statement 2 of 2 in script: SELECT a,\n  nope FROM t"),
    ],
)
def test_a_failure_names_the_line_or_the_statement(
    file: str, lines: tuple[int, ...], message: str, place: str
) -> None:
    """A graph of an earlier release, or one made by hand, knows no file."""
    script = SqlScript(name="script", statements=STATEMENTS, file=file, lines=lines)
    failure = RunningStatement(script, 2).failure_of(AnalysisException(message))
    assert failure.place == place
    assert ("== SQL (line 2, position 3) ==" in failure.message) == (message == MISSING)
