"""Options that Flink's command line spells differently: its spelling is understood as well."""

from collections.abc import Callable, Sequence
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Spelled(click.Option):
    """An option with further names, which are understood and not shown."""

    def __init__(self, *args: Any, also: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.shown = list(self.opts)
        self.opts = [*self.opts, *also]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        understood, self.opts = self.opts, self.shown
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = understood


def names_of(option: click.Option) -> list[str]:
    """As they are shown."""
    shown = option.shown if isinstance(option, Spelled) else option.opts
    return [*shown, *option.secondary_opts]


def refused_option(*names: str, reason: str, **given: Any) -> Decorator:
    """One that Flink has and that cannot be: whoever gives it is told why."""

    def refuse(_ctx: click.Context, _option: click.Parameter, value: object) -> None:
        if value:
            raise click.UsageError(f"{names[-1]} {reason}")

    return click.option(*names, hidden=True, expose_value=False, callback=refuse, **given)


detached_option = click.option(
    "--detached",
    cls=Spelled,
    also=("-detached",),
    is_flag=True,
    help="Return when it has begun, with the id of the operation.",
)

savepoint_format = click.option(
    "-type",
    "--type",
    type=click.Choice(["canonical", "native"], case_sensitive=False),
    expose_value=False,
    hidden=True,
    help="Understood for Flink's sake: savepoints of Spark have one format.",
)
