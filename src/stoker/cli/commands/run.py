"""`stoker run`."""

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import click

from stoker.cli.connection import connect_patiently, find_masters
from stoker.cli.display import (
    OutputDisplay,
    display_on_stderr,
    exit_code_of,
    is_program,
    is_script,
    job_end_text,
)
from stoker.cli.exit_codes import INTERRUPTED, OK
from stoker.cli.follow import JobFollower, UserLeft, ask_about_interrupt
from stoker.cli.logs_hint import logs_hint
from stoker.cli.options.attachment import attach_to_client, heartbeats_for
from stoker.cli.options.failure import trace_option
from stoker.cli.options.flink import AliasedOption, flink_cluster_options
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.options.job import (
    JobCommand,
    JobFile,
    StartingPoint,
    job_file_options,
    output_option,
    restore_options,
)
from stoker.cli.output import echo_json, say
from stoker.cli.rows import print_queries, write_rows
from stoker.cli.savepoint_texts import continuation_text, left_state_text
from stoker.cli.temporary_cluster import temporary_cluster
from stoker.client.blocking import BlockingClient
from stoker.client.operations import all_rows
from stoker.client.progress import is_at_work
from stoker.core.errors import InvalidInput, NotFound, StokerError, Unavailable
from stoker.core.graph import JobGraph, JobType, engine_of
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus

DETACHED_SECONDS = 2.0
"""How long a detached run watches its job: most mistakes in a job show by then."""


@click.command(cls=JobCommand)
@click.option(
    "-d",
    "--detached",
    is_flag=True,
    help="Return when the job has begun, waits, or has failed at once; after 2 s in any case.",
)
@click.option(
    "-sae",
    "--shutdown-on-attached-exit",
    "attached",
    cls=AliasedOption,
    aliases=("--shutdownOnAttachedExit",),
    is_flag=True,
    help="Let the cluster cancel the job when this command ends, for whatever reason.",
)
@output_option
@restore_options
@job_file_options
@trace_option
@flink_cluster_options
@shared_options
def run(
    invocation: Invocation,
    job_file: JobFile,
    start: StartingPoint,
    detached: bool,
    attached: bool,
    trace: bool,
    output: Path | None,
) -> int:
    """Run a job and watch it until its end.

    FILE is a Python pipeline, a YAML job, a SQL script, or any PySpark script. What the job's own
    code prints is printed here, and so are the rows of each SELECT of a SQL script. A PySpark
    script runs as it is, and its exit code becomes the exit code of the command.
    FILE.py:NAME picks one of several pipelines. ARGS are passed to a Python file; put -- before
    arguments that begin with a dash.

    With --detached, the id of the job is printed, and the cluster runs it without this command. A
    job that fails in its first moments is reported, and the exit code says so.

    If there is no cluster, one is started on this machine for the time of the command.

    Example: stoker run jobs/orders.py --param day=2026-11-01 --conf spark.sql.shuffle.partitions=8
    """
    job_file = job_file.with_spark_settings(invocation.definitions)
    loaded = start.of(job_file.load())
    if detached and attached:
        raise InvalidInput(
            "a job is either --detached or cancelled with this command (-sae); give one of the two"
        )
    if output is not None:
        _check_gives_rows(loaded.graph, detached=detached)
    loaded = attach_to_client(loaded, invocation) if attached else loaded
    masters = find_masters(invocation)
    if masters is None and detached:
        raise Unavailable(
            "a detached job needs a cluster that keeps running: start one with stoker cluster up, "
            "or name a master with -m URL"
        )
    with ExitStack() as stack:
        is_temporary = masters is None
        token: str | None = None
        if masters is None:
            cluster = stack.enter_context(temporary_cluster(invocation, engine_of(loaded.graph)))
            masters, token = cluster.masters, cluster.token
        client = connect_patiently(masters, invocation, token)
        try:
            submitted = client.submit(loaded.graph, loaded.files_by_hash)
            job_id = submitted.job_id
            if submitted.continues_from is not None:
                say(continuation_text(submitted.continues_from))
            if detached:
                detached_job = _DetachedJob(invocation, client, loaded.graph.name, job_id)
                return detached_job.report(trace=trace)
            _report_engine(loaded.graph)
            watched = _WatchedJob(invocation, client, loaded.graph, job_id, output)
            return watched.until_end(temporary=is_temporary, trace=trace)
        except KeyboardInterrupt:
            if not is_temporary:
                say(
                    f"If the job is still running, end it with: stoker cancel {loaded.graph.job_id}"
                )
            raise


@dataclass(frozen=True)
class _DetachedJob:
    """A job that is left to the cluster, unless it fails at once."""

    invocation: Invocation
    client: BlockingClient
    name: str
    job_id: JobId

    def report(self, *, trace: bool) -> int:
        """Print the id, then what becomes of the job in its first moments; the exit code."""
        if not self.invocation.json:
            # First, so that nothing that happens later can withhold it.
            click.echo(self.job_id)
        details = self._first_moments()
        if self.invocation.json:
            status = {} if details is None else {"status": details.status}
            echo_json({"job_id": self.job_id, "name": self.name, **status})
        else:
            say(_begin_text(self.job_id, self.name, details, trace=trace))
            if details is not None and (hint := logs_hint(self.client, details)) is not None:
                say(hint)
        failed = details is not None and details.status is JobStatus.FAILED
        return exit_code_of(details) if details and failed else OK

    def _first_moments(self) -> JobDetails | None:
        """The job when Spark works for it, or it waits, or has ended; None if nobody says."""
        try:
            return self.client.wait_until(self.job_id, _is_settled, DETACHED_SECONDS)
        except StokerError:
            # The job is accepted, which is what this command promises.
            return None


def _is_settled(details: JobDetails) -> bool:
    return bool(details.waiting) or is_at_work(details)


def _begin_text(job_id: JobId, name: str, details: JobDetails | None, *, trace: bool) -> str:
    short = job_id[:12]
    if details is not None and details.status.globally_terminal:
        return job_end_text(details, trace=trace)
    state = "accepted" if details is None else details.status.value
    waiting = f" It waits: {details.waiting}." if details and details.waiting else ""
    return (
        f"Job {name} is {state}.{waiting}\n"
        f"Its output: stoker logs -f {short}; its state: stoker status {short}; "
        f"until its end: stoker wait {short}"
    )


def _check_gives_rows(graph: JobGraph, *, detached: bool) -> None:
    if not is_script(graph):
        raise InvalidInput(
            "--output writes the rows of a SELECT in a SQL script, and this job is none; give it a "
            "sink that writes what you want"
        )
    if detached:
        raise InvalidInput(
            "--output waits for the rows, and --detached does not; write them later with: "
            "stoker rows JOB --output FILE"
        )


def _report_engine(graph: JobGraph) -> None:
    if graph.engine_reason:
        say(f"The job runs on the {engine_of(graph)} engine: {graph.engine_reason}.")


@dataclass(frozen=True)
class _WatchedJob:
    invocation: Invocation
    client: BlockingClient
    graph: JobGraph
    job_id: JobId
    output: Path | None
    """File for the rows of a script's last query."""

    def until_end(self, *, temporary: bool, trace: bool) -> int:
        """Show what the job does and prints until its end; returns the exit code."""
        invocation, graph = self.invocation, self.graph
        program = is_program(graph)
        display = display_on_stderr(quiet=invocation.json, plain=program)
        output = OutputDisplay(display, self.client, self.job_id, program=program)
        if not invocation.json:
            display = output
        with closing(display), heartbeats_for(graph, self.client, invocation):
            can_leave = not temporary and graph.client_timeout_seconds is None
            can_stop = graph.job_type is JobType.STREAMING
            ask = ask_about_interrupt(can_leave=can_leave, can_stop=can_stop)
            follower = JobFollower(self.client, self.job_id, display, ask)
            try:
                details = follower.until_end(f"Job {self.job_id} is accepted.")
            except UserLeft:
                say(
                    f"Job {self.job_id} keeps running. Watch it with: "
                    f"stoker wait {self.job_id[:12]}"
                )
                return OK
        self._report_end(
            details,
            job_end_text(
                details, trace=trace, already_told=output.printed_errors, temporary=temporary
            ),
        )
        return INTERRUPTED if follower.interrupted else exit_code_of(details)

    def _report_end(self, details: JobDetails, text: str) -> None:
        has_rows = is_script(self.graph) and details.status is JobStatus.FINISHED
        is_printed = is_program(self.graph) or (has_rows and self._show_rows())
        if self.invocation.json:
            echo_json(details)
        else:
            # What a program or a query printed is the result of the command.
            click.echo(text, err=is_printed)
            if (left := left_state_text(details)) is not None:
                say(left)

    def _show_rows(self) -> bool:
        """Write or print the rows of the script; returns whether they were printed."""
        if self.output is not None:
            write_rows(self.client.run(all_rows(self.job_id)), self.output)
            return False
        if self.invocation.json:
            return False
        try:
            print_queries(self.client, self.job_id)
        except NotFound:
            # The script has no query.
            return False
        return True
