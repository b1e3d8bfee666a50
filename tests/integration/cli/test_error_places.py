"""The place at fault, as users see it: the part of the job, the file, the line and the word."""

from pathlib import Path

import pytest

from integration.cli.conftest import CommandLine

USED = """
from pyspark.sql import functions as F
from stoker import Pipeline

p = Pipeline("used")
p.source("raw", format="json", path="in", schema="n LONG")

@p.transform
def first(raw):
    return raw.where("n > 0")

@p.transform
def second(first):
    plus = first.withColumn("a", F.lit(1))
    {use}
    return used.withColumn("b", F.lit(2)).limit(5)

@p.transform
def third(second):
    return second.distinct(){after}

p.sink("third", format="noop")
"""
MISSING_PATH = """
from stoker import Pipeline

p = Pipeline("missing")
p.source("raw", format="json", path="inn")

{transform}

p.sink("later", format="noop")
"""
FUNCTION = """
@p.transform
def later(raw):
    return raw.select(raw.columns)
"""
QUERY = "p.transform('later', sql='SELECT * FROM raw')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n": 1}\n')
    return tmp_path


def failure_of(stoker: CommandLine, folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    failed = stoker("run", name, expect=1, cwd=folder)
    return failed.stdout + failed.stderr


@pytest.mark.parametrize(
    "use",
    [
        'used = plus.select(F.col("nope") + 1)',
        'used = plus.select("nope")',
        'used = plus.where("nope > 1")',
        'used = plus.groupBy("nope").count()',
        "used = plus.where(plus.nope > 1)",
        'used = plus.join(plus.select("nope"), "n")',
        'used = plus.where("n > > 1")',
    ],
)
def test_a_missing_column_is_told_with_the_line_in_the_function_that_uses_it(
    stoker: CommandLine, folder: Path, use: str
) -> None:
    """Spark looks at the plan after all functions have returned."""
    said = failure_of(stoker, folder, "job.py", USED.format(use=use, after=""))
    assert "\n  in transform 'second', " in said
    assert "job.py line 15" in said


def test_a_missing_column_that_a_later_transform_notices_is_told_of_the_one_that_uses_it(
    stoker: CommandLine, folder: Path
) -> None:
    text = USED.format(use='used = plus.select("nope")', after=".select(second.columns)")
    said = failure_of(stoker, folder, "job.py", text)
    assert "\n  in transform 'second', " in said
    assert "job.py line 15" in said


@pytest.mark.parametrize("transform", [FUNCTION, QUERY], ids=["function", "sql"])
def test_a_missing_path_names_the_source_and_what_it_is_relative_to(
    stoker: CommandLine, folder: Path, transform: str
) -> None:
    """Also if a later transform is the first that looks at the frame."""
    said = failure_of(stoker, folder, "job.py", MISSING_PATH.format(transform=transform))
    assert f"Path does not exist: file:{folder}/inn" in said
    assert f"inn is relative to {folder}, the directory in which the job was submitted" in said
    assert "${job_directory}/inn" in said
    assert "\n  in source 'raw'\n" in said


def test_a_syntax_error_in_a_script_shows_line_column_and_a_mark_below_the_word(
    stoker: CommandLine, folder: Path
) -> None:
    script = "-- a script\nselect 1 as a;\n\nselect a,\n   b fro m table\n where x\n"
    said = failure_of(stoker, folder, "bad.sql", script)
    assert "Syntax error at or near 'm'" in said
    assert "\n       b fro m table\n             ^^^\n" in said
    assert "\n  in bad.sql line 5 column 10, statement 2 of 2\n" in said


def test_a_missing_column_in_a_script_or_in_a_transform_shows_the_word(
    stoker: CommandLine, folder: Path
) -> None:
    query = "select n,\n  nope from values (1) as t(n)"
    said = failure_of(stoker, folder, "bad.sql", f"select 1;\n{query};")
    assert "\n      nope from values (1) as t(n)\n      ^^^^\n" in said
    assert "\n  in bad.sql line 3 column 3, statement 2 of 2\n" in said
    transform = f"p.transform('later', sql={query!r}, inputs=['raw'])"
    text = MISSING_PATH.format(transform=transform).replace('"inn"', '"in"')
    said = failure_of(stoker, folder, "job.py", text)
    assert "\n      nope from values (1) as t(n)\n      ^^^^\n" in said
    assert "\n  in transform 'later', line 2 column 3 of its query\n" in said


def test_a_function_that_returns_no_frame_is_named_once(stoker: CommandLine, folder: Path) -> None:
    text = MISSING_PATH.format(transform="@p.transform\ndef later(raw):\n    return 3")
    said = failure_of(stoker, folder, "job.py", text)
    assert "the function of later returned a value of type int, but" in said
