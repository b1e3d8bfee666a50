"""`stoker task-executor`."""

import click

from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.service import serve_until_signal
from stoker.processes.discovery import name_masters_for_programs
from stoker.processes.task_executor import run_task_executor


@click.command("task-executor")
@shared_options
def task_executor(invocation: Invocation) -> int:
    """Run a task executor with its Spark in the foreground, until SIGTERM.

    It finds the leading master through the same high-availability settings.

    With --json it prints two lines of JSON: one when its Spark is warm, and one when it has
    ended, with the reason.

    Example: stoker task-executor -D taskmanager.numberOfTaskSlots=4
    """
    configuration = invocation.configuration()
    name_masters_for_programs(configuration)
    return serve_until_signal(run_task_executor, configuration, json=invocation.json)
