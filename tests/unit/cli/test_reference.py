"""The generated page is the one in the repository."""

from pathlib import Path

from stoker.cli.main import COMMANDS
from stoker.cli.reference import main, render

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == render(), "run: make docs"


def test_every_command_has_a_section() -> None:
    page = render()
    assert [name for name in COMMANDS if f"## stoker {name}\n" not in page] == []


def test_every_option_has_a_meaning() -> None:
    assert [line for line in render().splitlines() if line.endswith("|  |")] == []


def test_the_page_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    target = tmp_path / "new" / "page.md"
    main([str(target)])
    assert target.read_text() == render()
