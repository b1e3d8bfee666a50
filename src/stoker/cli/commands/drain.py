"""`stoker drain`: take a task executor out of the cluster without losing work."""

import time

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json, say
from stoker.client.blocking import BlockingClient
from stoker.core.ids import ResourceId

_POLL_SECONDS = 0.5


@click.command()
@click.argument("executor")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Batch tasks that take longer are restarted elsewhere; without it they finish.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Wait until the task executor has left; the exit code is 1 if it has not after this time.",
)
@shared_options
def drain(
    invocation: Invocation, executor: str, timeout: float | None, wait_seconds: float | None
) -> int:
    """Give a task executor no new tasks; it ends when its last one is done.

    Streaming queries continue elsewhere from their checkpoint; batch tasks finish first. EXECUTOR
    is the id of a task executor.

    Example: stoker drain task-executor-1 --timeout 600 --wait 900
    """
    with connect(invocation) as client:
        client.drain(ResourceId(executor), timeout)
        gone = None if wait_seconds is None else _wait(client, executor, wait_seconds)
    if invocation.json:
        echo_json({"task_executor": executor, "gone": gone})
    elif gone is None:
        say(f"Task executor {executor} gets no new tasks and ends when its last one is done.")
    else:
        say(f"Task executor {executor} {'has left' if gone else 'still has tasks'}.")
    return FAILED if gone is False else OK


def _wait(client: BlockingClient, executor: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(each.id == executor for each in client.task_executors()):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
