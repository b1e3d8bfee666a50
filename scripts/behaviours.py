"""Writes the last column of the catalogue of behaviours: the tests that show each of them.

`python scripts/behaviours.py docs/behaviours.md`; a test compares the page with the tests. Ids and
sentences are written by hand. A test shows a behaviour when it names its id, as in `(RUN-07)`.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
NOT_BUILT = "Not built"

_ROW = re.compile(r"^\| ((?:X-)?[A-Z]+-\d\d) \| (.+?) \| (.*?) ?\|$", re.MULTILINE)
_ID = re.compile(r"(?<![\w-])((?:X-)?[A-Z]+)-(\d\d)(?: to \1-(\d\d))?(?![\w-])")
# From the fastest to the slowest.
_SUITES = ("unit", "contract", "simulation", "integration", "chaos", "compatibility")
_MOST_SHOWN = 3

Citation = tuple[Path, str]
"""A file below the tests, and a test in it; or "" if the file cites the id outside any test."""


def read_rows(page: str) -> list[tuple[str, str, str]]:
    """Id, behaviour and last column of each row, in the order of the page."""
    return _ROW.findall(page)


def find_citations(page: str) -> dict[str, list[Citation]]:
    """Citations by id, for the components of the page; also of ids that the page lacks."""
    components = {identifier.rpartition("-")[0] for identifier, _, _ in read_rows(page)}
    cited: dict[str, list[Citation]] = defaultdict(list)
    for file in sorted(TESTS.rglob("*.py"), key=_suite_and_path):
        for identifier, test in _citations_in(file.read_text()):
            if identifier.rpartition("-")[0] in components:
                citation = (file.relative_to(TESTS), test)
                if citation not in cited[identifier]:
                    cited[identifier].append(citation)
    return cited


def with_tests(page: str) -> str:
    """The page with its last column written anew."""
    cited = find_citations(page)

    def rewrite(row: re.Match[str]) -> str:
        identifier, behaviour, shown = row.groups()
        if not shown.startswith(NOT_BUILT):
            shown = _tests_in_words(cited.get(identifier, []))
        return f"| {identifier} | {behaviour} | {shown} |"

    return _ROW.sub(rewrite, page)


def find_ids(text: str) -> Iterator[str]:
    """Ids of any component, also those inside of `RUN-01 to RUN-04`."""
    for component, first, last in _ID.findall(text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{component}-{number:02}"


def _suite_and_path(file: Path) -> tuple[int, Path]:
    path = file.relative_to(TESTS)
    suite = path.parts[0]
    return (_SUITES.index(suite) if suite in _SUITES else len(_SUITES), path)


def _citations_in(source: str) -> Iterator[tuple[str, str]]:
    if not _ID.search(source):
        return
    tests = [
        (min([node.lineno, *(each.lineno for each in node.decorator_list)]), node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]
    for number, line in enumerate(source.splitlines(), start=1):
        for identifier in find_ids(line):
            inside = (
                test.name for start, test in tests if start <= number <= (test.end_lineno or start)
            )
            yield identifier, next(inside, "")


def _tests_in_words(citations: list[Citation]) -> str:
    """A file that also cites the id in one of its tests is not listed a second time."""
    in_tests = {file for file, test in citations if test}
    chosen = [each for each in citations if each[1] or each[0] not in in_tests]
    chosen.sort(key=lambda citation: not citation[1])  # those that name a test come first
    words = ", ".join(f"`{file}` {test}".strip() for file, test in chosen[:_MOST_SHOWN])
    more = len(chosen) - _MOST_SHOWN
    return f"{words}, and {more} more" if more > 0 else words


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_tests(path.read_text()))
