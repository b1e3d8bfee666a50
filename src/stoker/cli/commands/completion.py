"""`stoker completion`: commands, options and job names by the Tab key."""

import click
from click.shell_completion import get_completion_class

from stoker.cli.exit_codes import OK

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_STOKER_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print what a shell needs to complete commands, options and job names.

    Example, for a line of ~/.bashrc: eval "$(stoker completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root()
    click.echo(kind(root.command, {}, "stoker", _VARIABLE).source())
    return OK
