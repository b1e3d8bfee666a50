"""The reference page in the repository is up to date."""

from collections.abc import Iterator
from pathlib import Path

import click

from stoker.cli.main import COMMANDS, cli
from stoker.cli.options.flink import visible_names
from stoker.cli.reference import main, render

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == render(), "run: make docs"


def test_every_command_has_a_section() -> None:
    page = render()
    assert [name for name in COMMANDS if f"## stoker {name}\n" not in page] == []


def commands(context: click.Context) -> Iterator[tuple[str, str]]:
    """Path and help text of every command that is not a group."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context.command_path, command.get_help(context)
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from commands(click.Context(child, info_name=name, parent=context))


def options(context: click.Context) -> Iterator[tuple[str, list[str]]]:
    """The names of each option that the help of a command shows."""
    command = context.command
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            yield context.command_path, visible_names(option)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from options(click.Context(child, info_name=name, parent=context))


def test_a_short_option_means_the_same_in_every_command() -> None:
    meanings: dict[str, set[str]] = {}
    for _, names in options(click.Context(cli, info_name="stoker")):
        long = next((name for name in names if name.startswith("--")), names[0])
        for name in names:
            if not name.startswith("--"):
                meanings.setdefault(name, set()).add(long)
    assert {"-p": {"--parallelism"}, "-s": {"--from-savepoint"}}.items() <= meanings.items()
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def test_every_command_shows_an_example_of_itself() -> None:
    found = dict(commands(click.Context(cli, info_name="stoker")))
    assert len(found) > len(COMMANDS)
    without = [
        path
        for path, text in found.items()
        if "Example" not in text or path not in text.partition("Example")[2]
    ]
    assert without == []


def test_every_option_has_a_meaning() -> None:
    assert [line for line in render().splitlines() if line.endswith("|  |")] == []


def test_the_page_is_written_to_the_given_path(tmp_path: Path) -> None:
    target = tmp_path / "new" / "page.md"
    main([str(target)])
    assert target.read_text() == render()
