"""An operation that the cluster goes on with and nobody here waits for."""

import click

from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation
from stoker.cli.output import echo_value
from stoker.cli.terminal import say
from stoker.core.ids import JobId


def tell_begun(invocation: Invocation, job_id: JobId, trigger_id: str) -> int:
    if invocation.json:
        echo_value({"job_id": job_id, "trigger_id": trigger_id})
    else:
        click.echo(trigger_id)
        say("It has begun. stoker savepoint list shows the savepoint when it is there.")
    return OK
