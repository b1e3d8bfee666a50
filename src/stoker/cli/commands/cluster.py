"""`stoker cluster`: a local cluster that keeps running."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from stoker.api.cluster import ClusterOverviewAnswer
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json, say, show_steps, stdout_table
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.config.processes import ClusterOptions
from stoker.core.errors import Conflict, InvalidInput, StokerError
from stoker.ha.zookeeper.options import ZooKeeperOptions
from stoker.processes.local.cluster import SAVEPOINTS, LocalCluster
from stoker.processes.local.cluster_state import (
    ClusterState,
    ProcessRecord,
    default_directory,
    kept_checkpoints,
    read_state,
    url_of,
)
from stoker.processes.local.free_ports import check_rest_ports
from stoker.processes.local.token import TOKEN_FILE
from stoker.rest.options import RestOptions
from stoker.savepoints.options import RETAINED_DIRECTORY, SAVEPOINT_DIRECTORY
from stoker.security.options import RestSecurityOptions


def _directory_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--dir",
        "directory",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        default=default_directory,
        show_default="~/.stoker/local, or below $STOKER_HOME",
        help="Where the cluster keeps its files.",
    )(command)


@click.group()
def cluster() -> None:
    """Start, show and stop a local cluster: one on this machine that keeps running."""


@cluster.command()
@click.option(
    "--masters",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="Number of masters; one leads, the others are standbys.",
)
@click.option(
    "--task-executors",
    type=click.IntRange(0, 32),
    default=1,
    show_default=True,
    help="Number of task executors, each with a Spark of its own.",
)
@click.option(
    "--zookeeper",
    type=click.IntRange(0, 9),
    default=0,
    show_default=True,
    help="Number of ZooKeeper servers to start and coordinate with; 3 survive the loss of one.",
)
@click.option(
    "--slots", type=click.IntRange(1), help="Tasks that each task executor runs at the same time."
)
@click.option(
    "--rest-port", metavar="PORT", help="Port, list or range of ports; 0 is any free port."
)
@click.option(
    "--no-token",
    is_flag=True,
    help="Let every user of this machine call REST, for tools that know no tokens.",
)
@_directory_option
@shared_options
def up(
    invocation: Invocation,
    masters: int,
    task_executors: int,
    zookeeper: int,
    slots: int | None,
    rest_port: str | None,
    no_token: bool,
    directory: Path,
) -> int:
    """Start a local cluster and return when it is ready.

    If it runs already, only those of its processes that died are started again.

    Only commands and programs of this user can use it: they find its token in its directory.

    Example: stoker cluster up --masters 2 --task-executors 2 --slots 4
    """
    more = [f"taskmanager.numberOfTaskSlots={slots}"] if slots else []
    more += [f"rest.bind-port={rest_port}"] if rest_port else []
    configuration = invocation.configuration(*more, defaults=_defaults_in(directory.absolute()))
    has_no_tokens = configuration.of(RestSecurityOptions).tokens is None
    local = LocalCluster(directory, client=configuration.of(ClientOptions))
    state = local.state
    if state is not None and state.alive:
        return _start_missing(local, state, invocation)
    if state is not None:
        say("The last local cluster ended without being stopped; starting it again.")
    check_rest_ports(configuration.of(RestOptions), masters)
    try:
        with show_steps("Starting the local cluster") as tell:
            local.start(
                masters=masters,
                task_executors=task_executors,
                zookeeper=zookeeper,
                high_availability=configuration.of(ClusterOptions).high_availability,
                configuration=configuration.as_file_text(),
                with_token=not no_token and has_no_tokens,
                with_acl=not configuration.of(ZooKeeperOptions).auth,
            )
            local.wait_until_ready(tell)
    except Conflict:
        # Another command has just started a cluster here: it is not ours to stop.
        raise
    except (StokerError, KeyboardInterrupt):
        local.stop()
        raise
    return _report_running(local, invocation)


def _defaults_in(directory: Path) -> dict[str, str]:
    """Defaults of a local cluster in this directory."""
    defaults = {SAVEPOINT_DIRECTORY: str(directory / SAVEPOINTS)}
    if directory == default_directory():
        defaults[RETAINED_DIRECTORY] = str(kept_checkpoints())
    return defaults


def _start_missing(local: LocalCluster, state: ClusterState, invocation: Invocation) -> int:
    if state.dead:
        names = ", ".join(f"{record.name} (pid {record.pid})" for record in state.dead)
        say(f"The local cluster in {local.directory} is running, but {names} died.")
        with show_steps("Starting what is missing") as tell:
            local.start_missing()
            local.wait_until_ready(tell)
    else:
        say(f"The local cluster in {local.directory} is already running.")
        local.wait_until_ready(say)
    return _report_running(local, invocation)


def _report_running(local: LocalCluster, invocation: Invocation) -> int:
    if invocation.json:
        _echo_status(local.directory, local.state or ClusterState())
    else:
        click.echo(f"The local cluster is ready at {local.masters}")
        say(f"Its files and logs are in {local.directory}. Stop it with: stoker cluster down")
        if local.token is not None:
            say(
                f"Clients other than Stoker's own need the token in {local.directory / TOKEN_FILE}."
            )
    return OK


@cluster.command()
@_directory_option
@shared_options
def status(invocation: Invocation, directory: Path) -> int:
    """Show the processes of the local cluster; the exit code is 1 unless all are running.

    Example: stoker cluster status --json
    """
    state = read_state(directory)
    if invocation.json:
        _echo_status(directory, state or ClusterState())
    elif state is None:
        click.echo(f"No local cluster runs in {directory}.")
    else:
        client = LocalCluster(
            directory, client=invocation.configuration().of(ClientOptions)
        ).client_options
        click.echo(_status_text(directory, state, client))
    return OK if state is not None and not state.dead else FAILED


def _status_text(directory: Path, state: ClusterState, client: ClientOptions) -> str:
    urls = {record.name: url_of(directory, record) for record in state.masters if record.alive}
    known = [url for url in urls.values() if url]
    overview = _ask_overview(",".join(known), client) if known else None
    leader = overview.leader if isinstance(overview, ClusterOverviewAnswer) else msgspec.UNSET
    rows = [
        (
            record.name,
            str(record.pid),
            _state_text(record, leads=urls.get(record.name) == leader),
            urls.get(record.name) or "-",
            Path(record.log).name,
        )
        for record in state.processes
    ]
    table = stdout_table(("PROCESS", "PID", "STATE", "REST", "LOG"), rows, shorten=(0, 4))
    parts = [f"{table}\n\nLogs are in {directory / 'log'}"]
    if overview is not None:
        parts.append(_overview_text(overview))
    if state.dead:
        parts.append("Start what died again with: stoker cluster up")
    return "\n\n".join(parts)


def _state_text(record: ProcessRecord, *, leads: bool) -> str:
    if not record.alive:
        return "died"
    return "running, leads" if leads else "running"


def _ask_overview(masters: str, client: ClientOptions) -> ClusterOverviewAnswer | StokerError:
    try:
        return BlockingClient(masters, client).overview()
    except StokerError as error:
        return error


def _overview_text(overview: ClusterOverviewAnswer | StokerError) -> str:
    if isinstance(overview, StokerError):
        return f"No master is leading: {overview.message}"
    return (
        f"Task executors: {overview.taskmanagers}, slots: {overview.slots_total} "
        f"({overview.slots_available} free), jobs running: {overview.jobs_running}"
    )


def _echo_status(directory: Path, state: ClusterState) -> None:
    echo_json(
        {
            "directory": str(directory),
            "processes": [
                {
                    "name": record.name,
                    "pid": record.pid,
                    "alive": record.alive,
                    "url": url_of(directory, record) if record.alive else None,
                    "log": record.log,
                }
                for record in state.processes
            ],
        }
    )


@cluster.command()
@click.option(
    "--purge",
    is_flag=True,
    help="Remove its files as well: jobs, results, logs; not its savepoints.",
)
@click.option(
    "--with-savepoints", is_flag=True, help="With --purge: remove the savepoints in it, too."
)
@_directory_option
@shared_options
def down(invocation: Invocation, directory: Path, purge: bool, with_savepoints: bool) -> int:
    """Stop the local cluster; its jobs are kept and continue at the next start.

    To cancel the jobs and end the cluster for good, use: stoker shutdown

    Example: stoker cluster down --purge
    """
    if with_savepoints and not purge:
        raise InvalidInput("--with-savepoints removes files, so it needs --purge; give both")
    local = LocalCluster(directory)
    if local.state is None:
        say(f"No local cluster runs in {directory}.")
    else:
        with show_steps("Stopping the local cluster") as tell:
            local.stop(tell)
        say("The local cluster has stopped.")
    if purge:
        kept = local.purge(savepoints=with_savepoints)
        say(f"Removed {directory}." if kept is None else _kept_text(directory, kept))
    if invocation.json:
        _echo_status(directory, ClusterState())
    return OK


def _kept_text(directory: Path, kept: Path) -> str:
    return (
        f"Removed the files in {directory}, but not the savepoints in {kept}. "
        "To remove them, too: stoker cluster down --purge --with-savepoints"
    )
