"""The command itself: it starts fast, and no traceback reaches the user."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from stoker import __version__
from stoker.cli import main
from stoker.cli.main import cli

HEAVY = {"asyncio", "grpc", "httpx", "pyspark", "rich", "uvicorn", "yaml"}


def test_the_version_is_printed(stoker) -> None:
    result = stoker("--version")
    assert result.output == f"stoker {__version__}\n"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "module",
    ["stoker.cli.main", "stoker.cli.commands.list", "stoker.cli.commands.status"],
)
def test_a_quick_command_loads_no_heavy_library(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in run.stdout.split()}.isdisjoint(HEAVY)


def test_version_and_help_load_no_library_but_click() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import stoker.cli.main; print(*set(sys.modules) - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"click", "stoker"}


def test_no_client_command_loads_spark_or_a_server() -> None:
    servers = {"master", "task-executor"}
    places = {place.partition(":")[0] for name, place in main.COMMANDS.items()}
    places -= {main.COMMANDS[name].partition(":")[0] for name in servers}
    code = f"import sys, {', '.join(sorted(places))}; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert loaded.isdisjoint({"grpc", "httpx", "kazoo", "pandas", "pyspark", "uvicorn"})


def test_help_is_one_screen_with_every_command_and_what_it_does(stoker) -> None:
    """A screen has 24 lines of 80 columns; the last line is for the next prompt."""
    lines = stoker("--help").output.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    for name in main.COMMANDS:
        (line,) = [line for line in lines if f"  {name}  " in line]
        assert len(line.partition(f"  {name}  ")[2].split()) > 1


def test_without_a_command_the_help_is_printed(stoker) -> None:
    assert "Usage: stoker COMMAND" in stoker().output


def test_a_mistyped_command_is_refused_with_a_suggestion(stoker) -> None:
    result = stoker("lits")
    assert result.exit_code == 2
    assert "there is no command 'lits'; did you mean 'list'?" in result.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("submit", "stoker run"),
        ("ps", "stoker list"),
        ("version", "stoker --version"),
        ("restart", "stoker cluster restart"),
        ("help", "stoker --help"),
    ],
)
def test_the_command_of_another_tool_gets_a_suggestion(stoker, typed: str, meant: str) -> None:
    result = stoker(typed)
    assert result.exit_code == 2
    assert f"there is no command '{typed}'; did you mean: {meant}\n" in result.stderr


def test_every_suggested_command_exists(stoker) -> None:
    for meant in main.HABITS.values():
        for command in meant.split(", or "):
            words = command.split()[1:]
            group = 2 if words[0] == "cluster" else 1
            assert stoker(*words[:group], "--help").exit_code == 0, command


def test_a_mistyped_flag_is_refused_with_a_suggestion(stoker) -> None:
    result = stoker("run", "job.py", "--parm", "a=b")
    assert result.exit_code == 2
    assert "--parm" in result.stderr
    assert "--param" in result.stderr


def _broken(_ctx: object, _name: str) -> None:
    raise RuntimeError("a cog came off")


def test_an_unexpected_error_is_one_line_and_no_traceback(stoker, monkeypatch) -> None:
    monkeypatch.setattr(main.cli, "get_command", _broken)
    result = stoker("list")
    assert result.exit_code == 1
    assert "Error: this should not happen: RuntimeError: a cog came off" in result.stderr
    assert "STOKER_DEBUG=1" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_traceback_is_printed_on_request(stoker, monkeypatch) -> None:
    monkeypatch.setenv("STOKER_DEBUG", "1")
    monkeypatch.setattr(main.cli, "get_command", _broken)
    assert "Traceback" in stoker("list").stderr


def test_ctrl_c_ends_a_command_with_exit_code_130(stoker, monkeypatch) -> None:
    def interrupted(_ctx: object, _name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main.cli, "get_command", interrupted)
    result = stoker("list")
    assert (result.exit_code, result.stderr.strip()) == (130, "Interrupted.")


def _leaves(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command, info_name=path)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _leaves(found, f"{path} {name}".strip())


def test_every_command_has_a_json_option() -> None:
    leaves = dict(_leaves(cli))
    assert len(leaves) > 25
    without = [
        path
        for path, command in leaves.items()
        if "--json" not in {name for param in command.params for name in param.opts}
    ]
    assert without == []
