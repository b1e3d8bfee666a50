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


def understood_option(*names: str, **given: Any) -> Decorator:
    """One that Flink needs and that nothing here depends on."""
    return click.option(*names, hidden=True, expose_value=False, **given)


def _check_target(_ctx: click.Context, _option: click.Parameter, value: str | None) -> None:
    if value == "local":
        raise click.UsageError(
            "--target local is not needed: leave it and -m out, and where no cluster runs one is "
            "made on this machine for the time of the command"
        )
    if value not in (None, "remote"):
        raise click.UsageError(
            f"--target {value} is none that Stoker has; remote is the only one: start stoker "
            "master and stoker task-executor where the jobs shall run, and name a master with "
            "-m URL"
        )


def which_cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Flink's options that say which cluster is meant; here that is `-m`."""
    for option in (
        click.option(
            *("-t", "--target", "-e", "--executor", "deployment_target"),
            metavar="TARGET",
            hidden=True,
            expose_value=False,
            callback=_check_target,
        ),
        refused_option(
            *("-z", "--zookeeperNamespace"),
            reason="is not needed: commands speak to masters; name one with -m URL (the masters' "
            "own namespace is the path of their option high-availability, zookeeper://…/PATH)",
            metavar="NAME",
        ),
        refused_option(
            *("-yid", "--yarnapplicationId"),
            reason="is of YARN, which Stoker does not use: name a master with -m URL",
            metavar="ID",
        ),
    ):
        command = option(command)
    return command


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
