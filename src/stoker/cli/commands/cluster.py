"""`stoker cluster`: a local cluster that keeps running."""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.cli.click_groups import SuggestingGroup
from stoker.cli.cluster_logs import logs
from stoker.cli.cluster_purge import ask_before_purge, kept_text
from stoker.cli.cluster_status import (
    Report,
    ask_for_report,
    echo_status,
    status_text,
)
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.options.local_cluster import (
    StartOptions,
    command_for,
    directory_option,
    flag_of,
    start_options,
)
from stoker.cli.output import say, show_steps
from stoker.client.options import ClientOptions
from stoker.config.processes import ClusterOptions
from stoker.core.errors import Conflict, InvalidInput, StokerError
from stoker.core.options import read_pair
from stoker.ha.zookeeper.options import ZooKeeperOptions
from stoker.processes.local.cluster import SAVEPOINTS, LocalCluster
from stoker.processes.local.cluster_state import (
    ClusterState,
    LastStart,
    default_directory,
    kept_checkpoints,
    read_state,
)
from stoker.processes.local.free_ports import check_rest_ports
from stoker.processes.local.losses import find_losses
from stoker.processes.local.token import TOKEN_FILE
from stoker.rest.options import RestOptions
from stoker.savepoints.options import RETAINED_DIRECTORY, SAVEPOINT_DIRECTORY
from stoker.security.options import RestSecurityOptions

if TYPE_CHECKING:
    from stoker.config.configuration import Configuration

_HABITS = {
    "start": "stoker cluster up",
    "stop": "stoker cluster down",
    "kill": "stoker cluster down",
    "destroy": "stoker cluster down --purge",
    "ps": "stoker cluster status",
    "ls": "stoker cluster status",
    "list": "stoker cluster status",
    "scale": "stoker cluster restart --task-executors N",
}


@click.group(cls=SuggestingGroup, habits=_HABITS)
def cluster() -> None:
    """Start, show and stop a local cluster: one on this machine that keeps running."""


cluster.add_command(logs)


@cluster.command()
@start_options
@directory_option
@shared_options
def up(invocation: Invocation, wanted: StartOptions, directory: Path) -> int:
    """Start a local cluster and return when it is ready.

    If it runs already, only those of its processes that died are started again; to change its
    options, use: stoker cluster restart. One that was stopped starts with the options of its last
    start, except for those that are given here or that the configuration sets by now.

    Only commands and programs of this user can use it: they find its token in its directory.

    Example: stoker cluster up --masters 2 --task-executors 2 --slots 4
    """
    configuration = _configuration(invocation, directory, wanted.definitions)
    local = LocalCluster(directory, client=configuration.of(ClientOptions))
    state, before = local.state, local.last_start
    if state is not None and state.alive:
        _refuse_changes(local, state, wanted, configuration, invocation.definitions)
        return _start_missing(local, state, invocation)
    if state is not None:
        say("The last local cluster ended without being stopped; starting it again.")
    if before is not None:
        typed = _keys_in((*invocation.definitions, *wanted.definitions))
        configuration, wanted = _as_before(invocation, local, wanted, before)
        _say_what_is_kept(configuration, wanted, before, typed)
    check_rest_ports(configuration.of(RestOptions), wanted.masters or 1)
    _start(local, wanted, configuration, with_token=_has_own_token(wanted, configuration))
    return _report_running(local, invocation)


def _as_before(
    invocation: Invocation, local: LocalCluster, wanted: StartOptions, before: LastStart
) -> tuple["Configuration", StartOptions]:
    """The settings and numbers of the last start, but for those that are given or set by now."""
    given = invocation.configuration(*wanted.definitions)
    kept = (f"{key}={text}" for key, text in before.settings.items() if key not in given.origins)
    configuration = _configuration(invocation, local.directory, (*kept, *wanted.definitions))
    return configuration, wanted.completed_from(before)


def _say_what_is_kept(
    configuration: "Configuration", wanted: StartOptions, before: LastStart, typed: set[str]
) -> None:
    """Options that nobody has typed this time should surprise nobody."""
    shown = configuration.redacted()
    changed = _keys_unlike(configuration, before, typed)
    unseen = {SAVEPOINT_DIRECTORY, RETAINED_DIRECTORY, *changed}
    kept = [key for key in before.settings if key in shown and key not in unseen]
    words = [*wanted.count_words(), *(word for key in kept for word in flag_of(key, shown[key]))]
    if words:
        say(f"It starts as it was last started: {shlex.join(words)}")
    _say_what_changes(configuration, changed)


def _keys_unlike(configuration: "Configuration", before: LastStart, typed: set[str]) -> list[str]:
    """Options with another value than at the last start that a file or a variable has set."""
    return [
        key
        for key, text in configuration.as_texts().items()
        if key not in (SAVEPOINT_DIRECTORY, RETAINED_DIRECTORY, *typed)
        and text != before.settings.get(key, configuration.default_text(key))
    ]


def _say_what_changes(configuration: "Configuration", changed: Iterable[str]) -> None:
    shown = configuration.redacted()
    for key in changed:
        words = shlex.join(flag_of(key, shown[key]))
        say(f"Other than at its last start: {words} (from {configuration.origin(key)})")


def _keys_in(definitions: Iterable[str]) -> set[str]:
    return {pair[0] for pair in map(read_pair, definitions) if pair is not None}


def _has_own_token(wanted: StartOptions, configuration: "Configuration") -> bool:
    return not wanted.no_token and configuration.of(RestSecurityOptions).tokens is None


def _configuration(
    invocation: Invocation, directory: Path, definitions: Iterable[str]
) -> "Configuration":
    return invocation.configuration(*definitions, defaults=_defaults_in(directory.absolute()))


def _refuse_changes(
    local: LocalCluster,
    state: ClusterState,
    wanted: StartOptions,
    configuration: "Configuration",
    definitions: tuple[str, ...],
) -> None:
    """Raise Conflict if an option on the command line asks for something else than what runs."""
    words = wanted.counts_unlike(state)
    words += ["--no-token"] if wanted.no_token and local.token is not None else []
    settings, now = local.settings, configuration.as_texts()
    for pair in map(read_pair, (*definitions, *wanted.definitions)):
        if pair is None:
            continue
        key, text = pair
        if now.get(key) != settings.get(key, configuration.default_text(key)):
            words += flag_of(key, text)
    if words:
        raise Conflict(
            f"the local cluster in {local.directory} is already running, and these options take "
            "effect only when it starts; stop and start it, and its jobs continue: "
            f"{command_for(['restart', *words], local.directory)}"
        )


def _start(
    local: LocalCluster,
    wanted: StartOptions,
    configuration: "Configuration",
    ports: Mapping[str, str] | None = None,
    *,
    with_token: bool,
) -> None:
    try:
        with show_steps("Starting the local cluster") as tell:
            local.start(
                masters=wanted.masters or 1,
                task_executors=1 if wanted.task_executors is None else wanted.task_executors,
                zookeeper=wanted.zookeeper or 0,
                high_availability=configuration.of(ClusterOptions).high_availability,
                configuration=configuration.as_file_text(),
                with_token=with_token,
                with_acl=not configuration.of(ZooKeeperOptions).auth,
                ports=ports or {},
            )
            local.wait_until_ready(tell)
    except Conflict:
        # Another command has just started a cluster here: it is not ours to stop.
        raise
    except (StokerError, KeyboardInterrupt):
        local.stop()
        raise


@cluster.command()
@start_options
@directory_option
@shared_options
def restart(invocation: Invocation, wanted: StartOptions, directory: Path) -> int:
    """Stop the local cluster and start it again; its jobs continue.

    It keeps its processes, ports and settings, except for those that are given here or that the
    configuration sets by now. One that was stopped before starts as it was last started.

    Example: stoker cluster restart --slots 4
    """
    configuration = _configuration(invocation, directory, wanted.definitions)
    local = LocalCluster(directory, client=configuration.of(ClientOptions))
    state, before = local.state, local.last_start
    if before is not None:
        typed = _keys_in((*invocation.definitions, *wanted.definitions))
        configuration, wanted = _as_before(invocation, local, wanted, before)
        if state is None:
            _say_what_is_kept(configuration, wanted, before, typed)
        else:
            _say_what_changes(configuration, _keys_unlike(configuration, before, typed))
    ports = {} if wanted.rest_port else _preferred_ports(local, configuration)
    is_open = before is not None and not before.has_token
    with_token = _has_own_token(wanted, configuration) and not is_open
    if state is not None:
        with show_steps("Stopping the local cluster") as tell:
            local.stop(tell)
    _start(local, wanted, configuration, ports, with_token=with_token)
    return _report_running(local, invocation)


def _defaults_in(directory: Path) -> dict[str, str]:
    """Defaults of a local cluster in this directory."""
    defaults = {SAVEPOINT_DIRECTORY: str(directory / SAVEPOINTS)}
    if directory == default_directory():
        defaults[RETAINED_DIRECTORY] = str(kept_checkpoints())
    return defaults


def _preferred_ports(local: LocalCluster, configuration: "Configuration") -> dict[str, str]:
    """The port of each master before others: a further master may be quicker to take it."""
    others = configuration.of(RestOptions).bind_port
    return {name: f"{port},{others}" for name, port in local.ports.items()}


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
    local.remember_start(_defaults_in(local.directory))
    if invocation.json:
        state = local.state or ClusterState()
        report = ask_for_report(local.masters, local.client_options)
        echo_status(local.directory, state, report)
    else:
        click.echo(f"The local cluster is ready at {local.urls.replace(',', ' and ')}")
        say(f"Its files and logs are in {local.directory}. Stop it with: stoker cluster down")
        if local.token is not None:
            say(
                "Its page, and clients other than Stoker's own, ask for the token in "
                f"{local.directory / TOKEN_FILE}."
            )
    return OK


@cluster.command()
@directory_option
@shared_options
def status(invocation: Invocation, directory: Path) -> int:
    """Show the processes of the local cluster; the exit code is 1 unless all are running.

    Example: stoker cluster status --json
    """
    state = read_state(directory)
    if state is None and not invocation.json:
        click.echo(f"No local cluster runs in {directory}.")
        return FAILED
    local = LocalCluster(directory, client=invocation.configuration().of(ClientOptions))
    known = state or ClusterState()
    report = ask_for_report(local.masters, local.client_options)
    if invocation.json:
        echo_status(directory, known, report)
    else:
        click.echo(status_text(directory, known, report))
    return OK if state is not None and not state.dead else FAILED


@cluster.command()
@click.option(
    "--purge",
    is_flag=True,
    help="Remove its files as well: jobs, results, logs, and the checkpoints of jobs that have not "
    "ended; not its savepoints, and not the checkpoints that ended streams have left.",
)
@click.option(
    "--with-savepoints", is_flag=True, help="With --purge: remove the savepoints in it, too."
)
@click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="With --purge: do not ask, even if jobs or checkpoints are lost.",
)
@directory_option
@shared_options
def down(
    invocation: Invocation, directory: Path, purge: bool, with_savepoints: bool, yes: bool
) -> int:
    """Stop the local cluster; its jobs are kept and continue at the next start.

    With --purge, jobs that have not ended are lost, and so are checkpoints that are kept in the
    directory of the cluster; the command lists them and asks first.

    To cancel the jobs and end the cluster for good, use: stoker shutdown

    Example: stoker cluster down --purge
    """
    if with_savepoints and not purge:
        raise InvalidInput("--with-savepoints removes files, so it needs --purge; give both")
    if purge and not yes:
        ask_before_purge(directory, find_losses(directory))
    local = LocalCluster(directory)
    if local.state is None:
        say(f"No local cluster runs in {directory}.")
    else:
        with show_steps("Stopping the local cluster") as tell:
            local.stop(tell)
        how = "" if purge else " Start it again as it was with: stoker cluster up"
        say(f"The local cluster has stopped.{how}")
    if purge:
        kept = local.purge(savepoints=with_savepoints)
        say(f"Removed {directory}." if kept is None else kept_text(directory, kept))
        left = kept_checkpoints()
        if left.is_dir() and any(left.iterdir()):
            say(
                f"The checkpoints of ended streams stay in {left}: a stream that is started again "
                "into the same output goes on from there."
            )
    if invocation.json:
        echo_status(directory, ClusterState(), Report())
    return OK
