"""The options of every command: which master, which settings, and whether to answer in JSON."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.cli.options.flink import AliasedOption

if TYPE_CHECKING:
    from stoker.config.configuration import Configuration


@dataclass(frozen=True, kw_only=True)
class Invocation:
    master: str | None = None
    config: Path | None = None
    definitions: tuple[str, ...] = ()
    json: bool = False

    def refined_by(self, later: "Invocation") -> "Invocation":
        """Join with the options after the command, which win over those before it."""
        return Invocation(
            master=later.master or self.master,
            config=later.config or self.config,
            definitions=(*self.definitions, *later.definitions),
            json=later.json or self.json,
        )

    def configuration(
        self, *more: str, defaults: Mapping[str, str] | None = None
    ) -> "Configuration":
        """Read the configuration from all sources.

        `more` are definitions that win over them; `defaults` give way to them.
        """
        # Imported late, like all that a command needs only sometimes.
        from stoker.processes.discovery import read_configuration  # noqa: PLC0415

        return read_configuration(self.config, (*self.definitions, *more), defaults)


def invocation_being_typed(ctx: click.Context | None) -> Invocation:
    """The options typed so far, while the shell completes a word and no command runs yet."""
    if ctx is None:
        return Invocation()
    own = Invocation(
        master=ctx.params.get("master"),
        config=ctx.params.get("config"),
        definitions=ctx.params.get("definitions") or (),
    )
    return invocation_being_typed(ctx.parent).refined_by(own)


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every command, as `invocation`."""

    @click.option(
        "-m",
        "--master",
        "master",
        cls=AliasedOption,
        aliases=("--jobmanager",),
        metavar="URL",
        help="URL of a master, or of several with commas. Else $STOKER_MASTER, else the option "
        "client.master, else the local cluster.",
    )
    @click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Configuration file to use instead of stoker.yml.",
    )
    @click.option(
        "-D", "definitions", metavar="KEY=VALUE", multiple=True, help="Set an option; repeatable."
    )
    @click.option("--json", is_flag=True, help="Answer in JSON.")
    @click.pass_context
    @functools.wraps(command)
    def with_invocation(
        ctx: click.Context,
        /,
        *args: Any,
        master: str | None,
        config: Path | None,
        definitions: tuple[str, ...],
        json: bool,
        **kwargs: Any,
    ) -> Any:
        own = Invocation(master=master, config=config, definitions=definitions, json=json)
        above = ctx.find_object(Invocation) or Invocation()
        return command(*args, invocation=above.refined_by(own), **kwargs)

    return with_invocation
