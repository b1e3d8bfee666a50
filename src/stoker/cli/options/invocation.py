"""What can be said about every command: which master, which settings, which form of answer."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.cli.options.flink import Spelled

if TYPE_CHECKING:
    from stoker.config.configuration import Configuration


@dataclass(frozen=True, kw_only=True)
class Invocation:
    master: str | None = None
    config: Path | None = None
    definitions: tuple[str, ...] = ()
    json: bool = False

    def refined_by(self, later: "Invocation") -> "Invocation":
        """What stands after the command wins over what stands before it."""
        return Invocation(
            master=later.master or self.master,
            config=later.config or self.config,
            definitions=(*self.definitions, *later.definitions),
            json=later.json or self.json,
        )

    def configuration(self, *more: str) -> "Configuration":
        """All sources joined; `more` are further definitions, which win."""
        # Here, since a command that needs no configuration should not wait for it.
        from stoker.config.load import load  # noqa: PLC0415
        from stoker.config.options import ALL  # noqa: PLC0415
        from stoker.config.tree import OptionTree  # noqa: PLC0415

        return load(
            OptionTree(ALL),
            environment=os.environ,
            file=self.config,
            definitions=(*self.definitions, *more),
        )


def typed_so_far(ctx: click.Context | None) -> Invocation:
    """While the shell completes a word no command runs, and only the parsed options are there."""
    if ctx is None:
        return Invocation()
    own = Invocation(
        master=ctx.params.get("master"),
        config=ctx.params.get("config"),
        definitions=ctx.params.get("definitions") or (),
    )
    return typed_so_far(ctx.parent).refined_by(own)


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options and hands them over as `invocation`."""

    @click.option(
        "-m",
        "--master",
        "master",
        cls=Spelled,
        also=("--jobmanager",),
        metavar="URL",
        help="Master to speak to, or several with commas. Else $STOKER_MASTER, else the option "
        "client.master, else a local cluster that runs.",
    )
    @click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Configuration file, in place of stoker.yml.",
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
