"""The argument JOB: a job by its id, the beginning of its id, or its name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from stoker.cli.options.invocation import invocation_being_typed
from stoker.client import job_names
from stoker.client.blocking import BlockingClient
from stoker.core.errors import StokerError
from stoker.core.ids import JobId

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def find_job(client: BlockingClient, text: str) -> JobId:
    """The id of the job with this id, this unique beginning of an id, or this name."""
    return client.run(job_names.find_job(text))


def job_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument JOB. A shell completes it with the jobs that have not ended."""
    return click.argument("job", shell_complete=_complete)(command)


def optional_job_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Like `job_argument`, for a command that means all jobs without one."""
    return click.argument("job", required=False, shell_complete=_complete)(command)


def _complete(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem  # noqa: PLC0415

    from stoker.cli.connection import connect  # noqa: PLC0415

    try:
        with connect(invocation_being_typed(ctx)) as client:
            jobs = client.jobs()
    except StokerError:
        # An error message in the middle of typing would only disturb.
        return []
    alive = [job for job in jobs if not job.state.globally_terminal]
    return [
        CompletionItem(word, help=help_text)
        for job in alive
        for word, help_text in ((job.name, job.jid[:12]), (job.jid, job.name))
        if (incomplete and word.startswith(incomplete)) or (not incomplete and word == job.name)
    ]
