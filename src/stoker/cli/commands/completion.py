"""`stoker completion`: the Tab key completes commands, options and job names."""

import click
from click.shell_completion import get_completion_class

from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation
from stoker.cli.output import echo_json

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_STOKER_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.option("--json", is_flag=True, help="Answer in JSON.")
@click.pass_context
def completion(ctx: click.Context, shell: str, json: bool) -> int:
    """Print the script by which a shell completes commands, options and job names.

    Example, as a line of ~/.bashrc: eval "$(stoker completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root()
    script = kind(root.command, {}, "stoker", _VARIABLE).source()
    above = ctx.find_object(Invocation)
    if json or (above is not None and above.json):
        echo_json({"shell": shell, "script": script})
    else:
        click.echo(script)
    return OK
