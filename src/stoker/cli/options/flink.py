"""Flink's spelling of options: understood as well, so that scripts for Flink's command line run."""

from collections.abc import Callable, Sequence
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class AliasedOption(click.Option):
    """An option with further names, `aliases`, which work and are not shown."""

    def __init__(self, *args: Any, aliases: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.visible = list(self.opts)
        self.opts = [*self.opts, *aliases]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        every_name, self.opts = self.opts, self.visible
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every_name


def visible_names(option: click.Option) -> list[str]:
    """The names of an option without its aliases."""
    visible = option.visible if isinstance(option, AliasedOption) else option.opts
    return [*visible, *option.secondary_opts]


def refused_option(*names: str, reason: str, **given: Any) -> Decorator:
    """An option of Flink that Stoker cannot offer: giving it is an error with the reason."""

    def refuse(_ctx: click.Context, _option: click.Parameter, value: object) -> None:
        if value:
            raise click.UsageError(f"{names[-1]} {reason}")

    return click.option(*names, hidden=True, expose_value=False, callback=refuse, **given)


def ignored_option(*names: str, **given: Any) -> Decorator:
    """An option of Flink that has no meaning here: it is accepted and changes nothing."""
    return click.option(*names, hidden=True, expose_value=False, **given)


def _check_target(_ctx: click.Context, _option: click.Parameter, value: str | None) -> None:
    if value == "local":
        raise click.UsageError(
            "--target local is not needed: leave out both --target and -m, and stoker run starts "
            "a cluster on this machine for the time of the command"
        )
    if value not in (None, "remote"):
        raise click.UsageError(
            f"--target {value} is not supported; the only target is remote: start stoker master "
            "and stoker task-executor where the jobs are to run, and name a master with -m URL"
        )


def flink_cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add Flink's options that select a cluster; Stoker selects it with -m."""
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
            reason="is for YARN, which Stoker does not use: name a master with -m URL",
            metavar="ID",
        ),
    ):
        command = option(command)
    return command


detached_option = click.option(
    "--detached",
    cls=AliasedOption,
    aliases=("-detached",),
    is_flag=True,
    help="Return as soon as the operation has started, with its id.",
)

savepoint_format = click.option(
    "-type",
    "--type",
    type=click.Choice(["canonical", "native"], case_sensitive=False),
    expose_value=False,
    hidden=True,
    help="Accepted for scripts written for Flink: Spark's savepoints have one format.",
)
