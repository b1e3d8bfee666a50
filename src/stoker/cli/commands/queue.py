"""`stoker queue`: who waits for whom."""

import click

from stoker.api.queues import Queue
from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_value
from stoker.cli.tables import shown_table

_HEAD = ("QUEUE", "RUNNING", "SLOTS", "WAITING", "NEXT")
_ID_DIGITS = 12


@click.group()
def queue() -> None:
    """Show the queues in which jobs wait for their turn.

    A job says its queue and priority itself; limits are options of the cluster (queues.*).
    """


@queue.command("list")
@shared_options
def list_queues(invocation: Invocation) -> int:
    """List them with their limits and the jobs that are next.

    Example: stoker queue list
    """
    with connect(invocation) as client:
        queues = client.queues()
    if invocation.json:
        echo_value(queues)
    else:
        click.echo(shown_table(_HEAD, [_row(each) for each in queues], shorten=(0,)))
    return OK


def _row(each: Queue) -> tuple[str, ...]:
    return (
        each.name,
        _of(each.running, each.max_running),
        _of(each.slots, each.max_slots),
        str(len(each.waiting)),
        each.waiting[0][:_ID_DIGITS] if each.waiting else "-",
    )


def _of(number: int, limit: int | None) -> str:
    return str(number) if limit is None else f"{number} of {limit}"
