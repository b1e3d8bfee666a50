"""`stoker drain`: a task executor leaves in good order."""

import time

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_value
from stoker.cli.terminal import say
from stoker.client.blocking import BlockingClient
from stoker.core.ids import ResourceId

_POLL_SECONDS = 0.5


@click.command()
@click.argument("executor")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Batch tasks that take longer begin anew elsewhere; without it they finish.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Return when it has left; exit code 1 when it is still there after this time.",
)
@shared_options
def drain(
    invocation: Invocation, executor: str, timeout: float | None, wait_seconds: float | None
) -> int:
    """Let a task executor take no new tasks, and end when it has none.

    Streaming queries go on elsewhere from their checkpoint; batch tasks finish first. EXECUTOR is
    the id of a task executor.

    Example: stoker drain task-executor-1 --timeout 600 --wait 900
    """
    with connect(invocation) as client:
        client.drain(ResourceId(executor), timeout)
        gone = None if wait_seconds is None else _wait(client, executor, wait_seconds)
    if invocation.json:
        echo_value({"task_executor": executor, "gone": gone})
    elif gone is None:
        say(f"Task executor {executor} takes no new tasks and ends when it has none.")
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
