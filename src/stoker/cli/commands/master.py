"""`stoker master`."""

import click

from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.service import serve_until_signal
from stoker.processes.master import run_master


@click.command()
@shared_options
def master(invocation: Invocation) -> int:
    """Run a master in the foreground, until SIGTERM; its log goes to the error stream.

    Several masters with the same high-availability settings elect a leader.

    With --json it prints two lines of JSON: one when it is ready, with its address, and one when
    it has ended, with the reason.

    Example: stoker master --config /etc/stoker/stoker.yml
    """
    return serve_until_signal(run_master, invocation.configuration(), json=invocation.json)
