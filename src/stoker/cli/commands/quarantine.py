"""`stoker quarantine`: jobs that were accepted but cannot be loaded."""

import click

from stoker.api.control import QuarantinedJobAnswer
from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json, moment_text
from stoker.client.blocking import BlockingClient
from stoker.core.errors import InvalidInput, NotFound
from stoker.core.ids import JobId, is_hex_id


@click.group()
def quarantine() -> None:
    """Show, retry and drop jobs that were accepted but cannot be loaded.

    Such a job does not disturb the others, and its files are kept until it is dropped.
    """


@quarantine.command("list")
@shared_options
def list_quarantined(invocation: Invocation) -> int:
    """List the jobs in quarantine, each with the reason and the location of its content.

    Example: stoker quarantine list --json
    """
    with connect(invocation) as client:
        jobs = client.quarantined()
    if invocation.json:
        echo_json(jobs)
    elif jobs:
        click.echo("\n\n".join(_text(job) for job in jobs))
    else:
        click.echo("No job is in quarantine.")
    return OK


@quarantine.command()
@click.argument("job")
@shared_options
def retry(invocation: Invocation, job: str) -> int:
    """Load and start a job now; if that still fails, print why.

    JOB is an id or the beginning of one. The cluster itself retries about twice a minute.

    Example: stoker quarantine retry 4f1c2a
    """
    with connect(invocation) as client:
        job_id = _quarantined_job(client, job)
        client.retry_quarantined(job_id)
    _report(invocation, job_id, "retried", f"Job {job_id} is loaded again: stoker status {job_id}")
    return OK


@quarantine.command()
@click.argument("job")
@shared_options
def drop(invocation: Invocation, job: str) -> int:
    """Give up a job: it ends as FAILED, its id never runs again, its files are removed.

    JOB is an id or the beginning of one.

    Example: stoker quarantine drop 4f1c2a
    """
    with connect(invocation) as client:
        job_id = _quarantined_job(client, job)
        client.drop_quarantined(job_id)
    _report(invocation, job_id, "dropped", f"Job {job_id} is dropped and recorded as FAILED.")
    return OK


def _quarantined_job(client: BlockingClient, text: str) -> JobId:
    """Find the job by its id, or by a beginning of the id that is unique in the quarantine."""
    wanted = text.strip().lower()
    if is_hex_id(wanted):
        return JobId(wanted)
    found = [job.job_id for job in client.quarantined() if wanted and job.job_id.startswith(wanted)]
    if not found:
        raise NotFound(
            f"no job in quarantine has an id that begins with {text}; see stoker quarantine list"
        )
    if len(found) > 1:
        raise InvalidInput(f"several jobs begin with {text}; give more digits: {', '.join(found)}")
    return found[0]


def _report(invocation: Invocation, job_id: JobId, done: str, words: str) -> None:
    if invocation.json:
        echo_json({"job_id": job_id, "done": done})
    else:
        click.echo(words)


def _text(job: QuarantinedJobAnswer) -> str:
    lines = [
        ("job", job.job_id),
        ("since", moment_text(job.since)),
        ("reason", job.reason),
        ("content", job.pointer or "unknown, since its record cannot be read"),
    ]
    if job.cancel_wanted:
        lines.append(("cancel", "requested; the job is cancelled as soon as it can be loaded"))
    return "\n".join(f"{name + ':':<10} {value}" for name, value in lines)
