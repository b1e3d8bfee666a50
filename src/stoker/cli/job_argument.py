"""The argument JOB: a job by its id, the beginning of its id, or its name."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from stoker.cli.options.invocation import invocation_being_typed
from stoker.client.blocking import BlockingClient
from stoker.core.errors import InvalidInput, NotFound, StokerError
from stoker.core.faults import did_you_mean
from stoker.core.ids import JobId, is_hex_id

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from stoker.api.jobs import JobOverview

_MOST_LISTED = 10


def find_job(client: BlockingClient, text: str) -> JobId:
    """The id of the job with this id, this unique beginning of an id, or this name."""
    wanted = text.strip()
    if is_hex_id(wanted.lower()):
        return JobId(wanted.lower())
    return choose_job(client.jobs(), wanted)


def choose_job(jobs: "Sequence[JobOverview]", wanted: str) -> JobId:
    """A name that several jobs share means the only one of them that has not ended."""
    by_id = [job for job in jobs if wanted and job.jid.startswith(wanted.lower())]
    by_name = [job for job in jobs if job.name == wanted]
    found = by_name or by_id
    alive = [job for job in found if not job.state.globally_terminal]
    if len(found) > 1 and len(alive) == 1 and by_name:
        found = alive
    if len(found) == 1:
        return found[0].jid
    if not found:
        raise NotFound(
            f"no job is named {wanted!r}, and no id begins with it ({_hint(jobs, wanted)})"
        )
    listing = "".join(f"\n  {job.jid}  {job.name}  {job.state}" for job in found[:_MOST_LISTED])
    how = "are named" if by_name else "begin with"
    raise InvalidInput(f"several jobs {how} {wanted}; give more of the id:{listing}")


def _hint(jobs: "Sequence[JobOverview]", wanted: str) -> str:
    return did_you_mean(wanted, {job.name for job in jobs}, "stoker list --all shows the jobs")


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
