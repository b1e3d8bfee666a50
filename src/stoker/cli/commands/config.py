"""`stoker config`: the options in effect here, and where each of them is set."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json, say, stdout_table
from stoker.core.errors import InvalidInput
from stoker.core.faults import closest

if TYPE_CHECKING:
    from stoker.config.configuration import Configuration


@dataclass(frozen=True, kw_only=True)
class ShownOption:
    key: str
    value: str
    origin: str
    meaning: str


@click.command()
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.option("-a", "--all", "everything", is_flag=True, help="Also the options with a default.")
@shared_options
def config(invocation: Invocation, keys: tuple[str, ...], everything: bool) -> int:
    """Show the options that are set, and the file, variable or flag that sets each of them.

    KEY is an option or the beginning of some, such as heartbeat; their defaults are shown as
    well. These are the options for commands and processes that start in this directory; those of
    a running local cluster are in its stoker.yml.

    Example: stoker config heartbeat
    """
    configuration = invocation.configuration()
    _refuse_unknown(keys, configuration)
    shown = [
        option
        for option in _options(configuration)
        if _is_wanted(option.key, keys)
        and (everything or keys or option.key in configuration.origins)
    ]
    if invocation.json:
        echo_json(shown)
        return OK
    if shown:
        rows = [(option.key, option.value, option.origin) for option in shown]
        click.echo(stdout_table(("OPTION", "VALUE", "FROM"), rows, shorten=(1, 2)))
    if len(shown) == 1 and keys:
        click.echo(f"\n{shown[0].meaning}")
    if not keys and not everything:
        say(_summary(configuration, invocation.config))
    return OK


def _options(configuration: "Configuration") -> list[ShownOption]:
    known = configuration.tree.by_key
    return [
        ShownOption(
            key=key,
            value=text,
            origin=configuration.origin(key),
            meaning=known[key].meaning if key in known else "A setting of Spark itself.",
        )
        for key, text in configuration.redacted().items()
    ]


def _is_wanted(key: str, beginnings: Sequence[str]) -> bool:
    return not beginnings or any(
        key == each or key.startswith(f"{each.rstrip('.')}.") for each in beginnings
    )


def _refuse_unknown(keys: Sequence[str], configuration: "Configuration") -> None:
    known = list(configuration.redacted())
    for key in keys:
        if not any(_is_wanted(each, [key]) for each in known):
            near = closest(key, known)
            remedy = f"did you mean '{near}'?" if near else "stoker config --all lists all"
            raise InvalidInput(f"no option is called {key} or begins with it; {remedy}", key=key)


def _summary(configuration: "Configuration", named: Path | None) -> str:
    # Imported late, like everything about the configuration.
    from stoker.config.sources import find_file  # noqa: PLC0415

    file = find_file(named, os.environ, folder=Path.cwd(), home=Path.home())
    read = f"Read {file}." if file else "There is no stoker.yml, here or in ~/.config/stoker."
    count = len(configuration.tree.by_key) - len(configuration.values)
    return f"{read} {count} options have their default; stoker config --all shows them."
