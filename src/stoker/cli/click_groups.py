"""Groups of commands: they suggest, import late, or take a job without a command, as in Flink."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import click

from stoker.core.faults import closest, did_you_mean


class SuggestingGroup(click.Group):
    """Names the command that was probably meant when there is none of the given name.

    `habits` says what a command of other tools is called here, by its name there.
    """

    def __init__(self, *args: Any, habits: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._habits = habits or {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise click.UsageError(
                f"there is no command '{args[0]}'; {self._hint(ctx, args[0], known)}", ctx
            )
        return super().resolve_command(ctx, args)

    def _hint(self, ctx: click.Context, given: str, known: Sequence[str]) -> str:
        if given in self._habits:
            return f"did you mean: {self._habits[given]}"
        return did_you_mean(given, known, f"see {ctx.command_path} --help")


class LazyGroup(SuggestingGroup):
    """Imports the module of a command when the command is used, so that every command starts fast.

    `lazy` says for each command where it is: `package.module:attribute`.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._lazy.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


_TRIGGER = "trigger"
_TYPING_ERROR = 0.75
"""A first word that is this similar to a command is a mistyped command, not the name of a job."""


class JobGroup(click.Group):
    """Commands about jobs; a job without a command means `trigger`, as with Flink.

    `shortcuts` are options that stand for a command, such as `-d PATH` for `dispose PATH`.
    """

    def __init__(
        self, *args: Any, shortcuts: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._shortcuts = shortcuts or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._with_command(ctx, args))

    def _with_command(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] in self.commands or args[0] in self.get_help_option_names(ctx):
            return args
        for place, argument in enumerate(args):
            if argument in self._shortcuts:
                return [self._shortcuts[argument], *args[:place], *args[place + 1 :]]
        meant = closest(args[0], self.commands, likeness=_TYPING_ERROR)
        if meant and ctx.resilient_parsing:
            # A shell is completing what is being typed: an error message would only disturb.
            return args
        if meant:
            raise click.UsageError(
                f"there is no command '{args[0]}'; did you mean '{meant}'? For a job of that name "
                f"write: {ctx.command_path} {_TRIGGER} {args[0]}",
                ctx,
            )
        return [_TRIGGER, *args]
