"""`stoker shutdown`: end a whole cluster for good."""

import socket
import sys
import time
from urllib.parse import urlsplit

import click

from stoker.cli.connection import connect, find_masters
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json, say
from stoker.client.blocking import BlockingClient
from stoker.client.masters import parse_masters
from stoker.core.errors import InvalidInput
from stoker.osproc.unix_socket import connect_to, socket_in
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import default_directory

_POLL_SECONDS = 0.2
_PROBE_SECONDS = 2.0


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask; required without a terminal.")
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=300.0,
    show_default=True,
    help="Wait until the masters have ended; the exit code is 1 if one still answers afterwards.",
)
@shared_options
def shutdown(invocation: Invocation, yes: bool, wait_seconds: float) -> int:
    """End the cluster for good: cancel its jobs, then end all its processes.

    Savepoints in progress are completed first. Results of jobs are kept: a cluster started again
    on the same storage shows them. To stop a local cluster and continue its jobs later, use:
    stoker cluster down

    Example: stoker shutdown --yes
    """
    masters = find_masters(invocation)
    is_local = masters is not None and masters == LocalCluster(default_directory()).masters
    with connect(invocation) as client:
        _confirm(client, yes)
        client.shut_down()
    assert masters is not None
    gone = _wait(masters, wait_seconds)
    if gone and is_local:
        # ZooKeeper servers that `stoker cluster up` started do not end with the masters.
        LocalCluster(default_directory()).stop()
    if invocation.json:
        echo_json({"masters": masters, "gone": gone})
    elif gone:
        say("The cluster has ended.")
    else:
        say("The cluster is still ending: its jobs have not all been cancelled yet.")
    return OK if gone else FAILED


def _confirm(client: BlockingClient, yes: bool) -> None:
    running = client.overview().jobs_running
    if yes or running == 0:
        return
    jobs = "1 job that has" if running == 1 else f"{running} jobs that have"
    if not sys.stdin.isatty():
        raise InvalidInput(f"this cancels {jobs} not ended; add --yes to do it")
    click.confirm(f"This cancels {jobs} not ended. Continue?", abort=True, err=True)


def _wait(masters: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(_answers(url) for url in parse_masters(masters)):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        if (path := socket_in(url)) is not None:
            connect_to(path, _PROBE_SECONDS).close()
            return True
        socket.create_connection((parts.hostname or "", port), timeout=_PROBE_SECONDS).close()
    except OSError:
        return False
    return True
