"""`stoker queue`: the queues and the jobs that wait in them."""

import click

from stoker.api.control import QueueAnswer
from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json, stdout_table

_HEAD = ("QUEUE", "RUNNING", "SLOTS", "WAITING", "NEXT")
_ID_DIGITS = 12


@click.group()
def queue() -> None:
    """Show the queues in which jobs wait for their turn.

    A job names its queue and priority; the limits of queues are options of the cluster (queues.*).
    """


@queue.command("list")
@shared_options
def list_queues(invocation: Invocation) -> int:
    """List the queues with their limits and the next job of each.

    Jobs that were admitted and have no slot yet count as waiting.

    Example: stoker queue list
    """
    with connect(invocation) as client:
        queues = client.queues()
    if invocation.json:
        echo_json(queues)
    else:
        click.echo(stdout_table(_HEAD, [_row(each) for each in queues], shorten=(0,)))
    return OK


def _row(each: QueueAnswer) -> tuple[str, ...]:
    return (
        each.name,
        _with_limit(each.running - each.waiting_for_slots, each.max_running),
        _with_limit(each.slots_in_use, each.max_slots),
        str(len(each.waiting) + each.waiting_for_slots),
        each.waiting[0][:_ID_DIGITS] if each.waiting else "-",
    )


def _with_limit(number: int, limit: int | None) -> str:
    return str(number) if limit is None else f"{number} of {limit}"
