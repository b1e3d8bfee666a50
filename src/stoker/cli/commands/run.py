"""`stoker run`."""

from contextlib import ExitStack

import click

from stoker.cli.connection import connect_patiently, find_masters
from stoker.cli.display import opened
from stoker.cli.ending import ending_text, exit_code_of
from stoker.cli.exit_codes import INTERRUPTED, OK
from stoker.cli.following import Following, Left
from stoker.cli.job_file import JobFile, job_file_options
from stoker.cli.options.attachment import beat_for, bound_to
from stoker.cli.options.flink import Spelled, which_cluster
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.options.restoring import from_savepoint, restore_options
from stoker.cli.output import echo_value
from stoker.cli.own_cluster import cluster_for_command
from stoker.cli.program_display import ProgramDisplay, is_program
from stoker.cli.submitting import submit
from stoker.cli.terminal import ask_about_interrupt, display_for_errors, say
from stoker.client.blocking import BlockingClient
from stoker.core.errors import InvalidInput, Unavailable
from stoker.core.graph import JobGraph, Restore, engine_of
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.pipeline.building import LoadedJob


@click.command()
@click.option("-d", "--detached", is_flag=True, help="Return when the job is accepted.")
@click.option(
    "-sae",
    "--shutdown-on-attached-exit",
    "bound",
    cls=Spelled,
    also=("--shutdownOnAttachedExit",),
    is_flag=True,
    help="Let the cluster cancel the job when this command is gone, however it went.",
)
@restore_options
@job_file_options
@which_cluster
@shared_options
def run(
    invocation: Invocation,
    job_file: JobFile,
    restore: Restore | None,
    detached: bool,
    bound: bool,
) -> int:
    """Run a job and watch it until its end.

    FILE is a Python pipeline, a YAML job, a SQL script, or any PySpark script, which runs as it
    is: what it prints is printed here, and its exit code is the command's. FILE.py:NAME picks one
    of several pipelines. ARGS are the arguments of a Python file; put -- before those that begin
    with a dash.

    Without a cluster, one is made on this machine for the time of the command.

    Example: stoker run jobs/orders.py --param day=2026-11-01 --conf spark.sql.shuffle.partitions=8
    """
    job_file = job_file.with_spark_settings(invocation.definitions)
    loaded = from_savepoint(job_file.load(), restore)
    if detached and bound:
        raise InvalidInput("a detached job cannot be bound to this command; give one of the two")
    loaded = bound_to(loaded, invocation) if bound else loaded
    masters = find_masters(invocation)
    if masters is None and detached:
        raise Unavailable(
            "a detached job needs a cluster that stays: start one with stoker cluster up, "
            "or name a master with -m URL"
        )
    with ExitStack() as stack:
        own = masters is None
        if masters is None:
            masters = stack.enter_context(cluster_for_command(invocation, engine_of(loaded.graph)))
        client = connect_patiently(masters, invocation)
        try:
            job_id = submit(client, loaded)
            if detached:
                return _tell_accepted(invocation, loaded, job_id)
            _tell_engine(loaded.graph)
            return _watch(invocation, client, loaded.graph, job_id, own_cluster=own)
        except KeyboardInterrupt:
            if not own:
                say(f"If job {loaded.graph.job_id} still runs, end it with: stoker cancel JOB")
            raise


def _tell_accepted(invocation: Invocation, loaded: LoadedJob, job_id: JobId) -> int:
    if invocation.json:
        echo_value({"job_id": job_id, "name": loaded.graph.name})
        return OK
    click.echo(job_id)
    say(f"Job {loaded.graph.name} is accepted. Watch it with: stoker wait {job_id[:12]}")
    return OK


def _tell_engine(graph: JobGraph) -> None:
    if graph.engine_reason:
        say(f"It runs on the {engine_of(graph)} engine: {graph.engine_reason}.")


def _watch(
    invocation: Invocation,
    client: BlockingClient,
    graph: JobGraph,
    job_id: JobId,
    *,
    own_cluster: bool,
) -> int:
    program = is_program(graph)
    shown = display_for_errors(quiet=invocation.json, plain=program)
    if program and not invocation.json:
        shown = ProgramDisplay(shown, client, job_id)
    with opened(shown) as display:
        can_leave = not own_cluster and graph.client_timeout_seconds is None
        ask = ask_about_interrupt(can_leave=can_leave)
        beat = beat_for(graph, client, invocation)
        following = Following(client, job_id, display, ask, beat)
        try:
            details = following.until_end(f"Job {job_id} is accepted.")
        except Left:
            say(f"Job {job_id} goes on. Watch it with: stoker wait {job_id[:12]}")
            return OK
    return _tell_end(invocation, details, program=program, interrupted=following.interrupted)


def _tell_end(
    invocation: Invocation, details: JobDetails, *, program: bool, interrupted: bool
) -> int:
    if invocation.json:
        echo_value(details)
    else:
        # What a program prints is its result: our words stand apart from it.
        click.echo(ending_text(details), err=program)
    return INTERRUPTED if interrupted else exit_code_of(details)
