"""The documents name files, pages and commands that exist."""

import ast
import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [
    *DOCS.rglob("*.md"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
]
FOLDERS = (ROOT, ROOT / "src" / "stoker", ROOT / "src", ROOT / "tests", ROOT / "tests" / "unit")

_MODULE = re.compile(r"`([\w./-]+/[\w-]+\.py)`")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_MERGE_MARKS = ("<" * 7, ">" * 7)
_TARGET = re.compile(r"`make ([a-z-]+)")


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_no_page_contains_merge_conflict_markers(page: Path) -> None:
    assert [line for line in page.read_text().splitlines() if line.startswith(_MERGE_MARKS)] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    named = set(_MODULE.findall(page.read_text()))
    missing = [name for name in named if not any((folder / name).exists() for folder in FOLDERS)]
    assert sorted(missing) == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_link_to_a_file_of_the_repository_leads_somewhere(page: Path) -> None:
    links = {link for link in _LINK.findall(page.read_text()) if "://" not in link}
    assert sorted(link for link in links if not (page.parent / link).exists()) == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(_TARGET.findall(page.read_text()))
    assert sorted(name for name in named if f"\n{name}:" not in makefile) == []


def test_the_index_of_decisions_lists_every_decision() -> None:
    folder = DOCS / "decisions"
    listed = set(_LINK.findall((folder / "index.md").read_text()))
    assert listed == {page.name for page in folder.glob("*.md")} - {"index.md"}


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    decisions = {page for page in pages if page.startswith("decisions/")} - {"decisions/index.md"}
    assert sorted(page for page in pages - decisions if page not in navigation) == []


def test_the_python_reference_is_current(tmp_path: Path) -> None:
    page = tmp_path / "python.md"
    script = ROOT / "scripts" / "python_reference.py"
    subprocess.run([sys.executable, script, page], check=True, cwd=ROOT)
    assert (DOCS / "reference" / "python.md").read_text() == page.read_text(), "run: make docs"


_COMMAND = re.compile(r"`((?:[A-Z_]+=\S+ )*pytest [^`]+)`")
_WORD = re.compile(r"[^\s()]+")


def commands() -> list[str]:
    return sorted(set(_COMMAND.findall((DOCS / "robustness.md").read_text())))


@functools.cache
def names_of_tests(path: Path) -> list[str]:
    """The texts that `-k` matches: the path of the file, the test and its parameters."""
    files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    found: list[str] = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and node.name.startswith("test_"):
                parameters = " ".join(ast.unparse(each) for each in node.decorator_list)
                found.append(f"{file} {node.name} {parameters}".lower())
    return found


def selects(expression: str, name: str) -> bool:
    """Whether a `-k` expression matches; each word but an operator is a substring to look for."""
    source = _WORD.sub(
        lambda word: word[0] if word[0] in ("and", "or", "not") else str(word[0].lower() in name),
        expression,
    )
    return bool(eval(source, {"__builtins__": {}}))


@pytest.mark.parametrize("command", commands())
def test_a_command_that_reproduces_a_fault_selects_a_test(command: str) -> None:
    words = [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word)][1:]
    expression = words.pop(words.index("-k") + 1) if "-k" in words else ""
    targets = [word.partition("::") for word in words if word.startswith("tests/")]
    paths = [ROOT / path for path, _, _ in targets]
    assert paths
    for path, (_, _, test) in zip(paths, targets, strict=True):
        assert path.exists(), path
        assert not test or any(f" {test.lower()} " in name for name in names_of_tests(path)), test
    if expression:
        names = [name for path in paths for name in names_of_tests(path)]
        assert any(selects(expression, name) for name in names)
