"""A group of commands about jobs in which a job alone means `trigger`, as Flink has it."""

from collections.abc import Mapping
from typing import Any

import click

from stoker.core.faults import closest

TRIGGER = "trigger"
_SURELY = 0.75
"""How much a word is like a command before it is taken for a mistyped one, and not for a job."""


class JobGroup(click.Group):
    """`also` are options that stand for a command, such as `-d PATH` for `dispose PATH`."""

    def __init__(self, *args: Any, also: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._also = also or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._with_command(ctx, args))

    def _with_command(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] in self.commands or args[0] in self.get_help_option_names(ctx):
            return args
        for place, argument in enumerate(args):
            if argument in self._also:
                return [self._also[argument], *args[:place], *args[place + 1 :]]
        meant = closest(args[0], self.commands, likeness=_SURELY)
        if meant and ctx.resilient_parsing:
            # A shell completes what is typed after it; nobody wants to hear of errors.
            return args
        if meant:
            raise click.UsageError(
                f"there is no command '{args[0]}'; did you mean {meant}? A job of that name "
                f"goes after {TRIGGER}",
                ctx,
            )
        return [TRIGGER, *args]
