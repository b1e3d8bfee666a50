"""`stoker list`."""

import time

import click

from stoker.api.jobs import JobOverview, TaskCounts
from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.options.flink import AliasedOption, flink_cluster_options
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import duration_text, echo_json, moment_text, stdout_table
from stoker.client.blocking import BlockingClient
from stoker.core.errors import AccessDenied
from stoker.core.states import JobStatus

_ID_DIGITS = 12
_HEAD = ("JOB", "NAME", "TYPE", "STATE", "STARTED", "DURATION", "TASKS", "RESTARTS", "OWNER")


@click.command("list")
@click.option("-a", "--all", "which", flag_value="all", help="Also jobs that have ended.")
@click.option("-r", "--running", "which", flag_value="running", help="Only jobs in state RUNNING.")
@click.option(
    "--scheduled",
    "which",
    cls=AliasedOption,
    aliases=("-s",),
    flag_value="scheduled",
    help="Only jobs that have not started: INITIALIZING or CREATED.",
)
@flink_cluster_options
@shared_options
def list_jobs(invocation: Invocation, which: str | None) -> int:
    """List jobs, newest first; by default those that have not ended.

    TASKS counts those that run, or of an ended job those that are done, and all. RESTARTS counts
    the tasks that were started again, after a failure or with the cluster.

    Example: stoker list --running
    """
    with connect(invocation) as client:
        jobs = sorted(client.jobs(with_owners=True), key=lambda job: job.start_time, reverse=True)
        quarantined = 0 if invocation.json else _count_quarantined(client)
    listed = [job for job in jobs if _is_wanted(job, which)]
    if invocation.json:
        echo_json(listed)
    elif listed:
        click.echo(stdout_table(_HEAD, [_row(job) for job in listed], shorten=(1,)))
    else:
        click.echo(_empty_text(len(jobs), which))
    if quarantined:
        words = "1 job that cannot" if quarantined == 1 else f"{quarantined} jobs that cannot"
        click.echo(f"In quarantine: {words} be loaded (stoker quarantine list).")
    return OK


def _count_quarantined(client: BlockingClient) -> int:
    """0 for a caller who may see his own jobs only."""
    try:
        return len(client.quarantined())
    except AccessDenied:
        return 0


def _is_wanted(job: JobOverview, which: str | None) -> bool:
    match which:
        case "all":
            return True
        case "running":
            return job.state is JobStatus.RUNNING
        case "scheduled":
            return job.state in (JobStatus.INITIALIZING, JobStatus.CREATED)
        case _:
            return not job.state.globally_terminal


def _row(job: JobOverview) -> tuple[str, ...]:
    ended = job.state.globally_terminal
    end = job.end_time if ended else round(time.time() * 1000)
    return (
        job.jid[:_ID_DIGITS],
        job.name,
        job.job_type.lower(),
        f"{job.state.value} (waits for {job.waits_for})" if job.waits_for else job.state.value,
        # Without the year, to leave room for names.
        moment_text(job.start_time)[5:],
        duration_text(end - job.start_time),
        tasks_text(job.tasks, ended=ended),
        str(job.restarts or 0),
        job.owner or "-",
    )


def tasks_text(tasks: TaskCounts, *, ended: bool) -> str:
    """`1/1 running`, `1/3 running, 2 done`, `3/3 done`; empty before the job has tasks."""
    if not tasks.total:
        return "-"
    if ended:
        return f"{tasks.finished}/{tasks.total} done"
    done = f", {tasks.finished} done" if tasks.finished else ""
    return f"{tasks.running}/{tasks.total} running{done}"


def _empty_text(count: int, which: str | None) -> str:
    if which == "all" or not count:
        return "No jobs. Run one with: stoker run FILE"
    jobs = "1 job has" if count == 1 else f"{count} jobs have"
    return f"No job is {which or 'in progress'}; {jobs} another state (stoker list --all)."
