"""The reference page in the repository is up to date."""

from pathlib import Path

from stoker.config.options import ALL
from stoker.config.reference import main, render
from stoker.config.tree import OptionTree

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == render(OptionTree(ALL)), "run: make docs"


def test_every_option_is_on_the_page_once() -> None:
    tree = OptionTree(ALL)
    page = render(tree)
    assert [key for key in tree.by_key if page.count(f"| `{key}` |") != 1] == []


def test_the_page_is_written_to_the_given_path(tmp_path: Path) -> None:
    target = tmp_path / "new" / "page.md"
    main([str(target)])
    assert target.read_text() == render(OptionTree(ALL))
