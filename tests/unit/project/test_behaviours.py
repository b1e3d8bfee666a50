"""The catalogue of behaviours and the tests agree on every id."""

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "behaviours.md").read_text()


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("behaviours", ROOT / "scripts" / "behaviours.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load_script()
ROWS = script.read_rows(PAGE)


def test_every_id_has_one_row() -> None:
    counts = Counter(identifier for identifier, _, _ in ROWS)
    assert [identifier for identifier, count in counts.items() if count > 1] == []
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    headings = [line for line in lines if line.startswith("| id |")]
    assert len(ROWS) == len(lines) - len(headings), "a line of a table is not a valid row"


def test_every_id_that_a_test_cites_is_in_the_catalogue() -> None:
    known = {identifier for identifier, _, _ in ROWS}
    cited = script.find_citations(PAGE)
    assert {identifier: cited[identifier] for identifier in cited.keys() - known} == {}


def test_the_source_cites_no_id() -> None:
    """Comments in the source are complete without the catalogue."""
    components = {identifier.rpartition("-")[0] for identifier, _, _ in ROWS}
    cited = [
        (str(file.relative_to(ROOT)), identifier)
        for file in (ROOT / "src").rglob("*.py")
        for identifier in script.find_ids(file.read_text())
        if identifier.rpartition("-")[0] in components
    ]
    assert cited == []


def test_every_row_has_a_test_or_the_reason_why_there_is_none() -> None:
    cited = script.find_citations(PAGE)
    bare = [identifier for identifier, _, shown in ROWS if not shown]
    assert bare == []
    reasons = [identifier for identifier, _, shown in ROWS if shown.startswith(script.NOT_BUILT)]
    assert [identifier for identifier in reasons if identifier in cited] == [], (
        "a behaviour with a test is built"
    )


def test_the_last_column_is_up_to_date() -> None:
    assert script.with_tests(PAGE) == PAGE, "run: make docs"


def test_citations_are_found_in_tests_files_and_ranges() -> None:
    found = list(script.find_ids("(ABC-07, X-XYZ-03), QED-01 to QED-03, but ABC-071 is none"))
    assert found == ["ABC-07", "X-XYZ-03", "QED-01", "QED-02", "QED-03"]
