"""The documents name files, pages and commands that exist."""

import re
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
_TARGET = re.compile(r"`make ([a-z-]+)")


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


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
