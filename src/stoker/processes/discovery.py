"""Which cluster a client speaks to: one rule for commands, programs and `stoker.connect()`.

If two of them found different clusters, a job would run where nobody looks for it. The first of
these that names a master decides:

1. the caller: `-m URL`, or `stoker.connect(URL)`;
2. the variable STOKER_MASTER;
3. the cluster that runs this program, if one does;
4. the option `client.master`: `-D`, STOKER_CLIENT_MASTER, stoker.yml;
5. the local cluster in STOKER_HOME, or else in ~/.stoker.

A local cluster that is on record and does not answer is an error, never a reason to go on to
another cluster.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from stoker.client.masters import parse_masters
from stoker.client.options import ClientOptions
from stoker.config.sources import NAMING, may_be_set
from stoker.core.errors import InvalidOption, StartupFailed, Unavailable
from stoker.processes.local.cluster_state import (
    STATE_FILE,
    ClusterState,
    client_url_for,
    client_urls_of,
    default_directory,
    local_directories,
    read_state,
    surrounding_directory,
)

if TYPE_CHECKING:
    from stoker.config.configuration import Configuration

MASTER_VARIABLE = "STOKER_MASTER"


def find_masters(named: str | None, configuration: "Configuration | None") -> str | None:
    """URLs of the masters; None when no master is named and no local cluster is on record.

    Raises Unavailable when the local cluster is on record and none of its masters answers.
    """
    known = named or os.environ.get(MASTER_VARIABLE)
    if known:
        return through_sockets(known)
    surrounding = surrounding_directory()
    if surrounding is not None:
        return masters_on_record(surrounding)
    if configuration is not None and (configured := configuration.of(ClientOptions).master):
        check_token_is_meant_for(configuration, configured)
        return through_sockets(configured)
    return masters_on_record(default_directory())


def place_that_names(named: str | None, configuration: "Configuration | None") -> str:
    """What has named the masters that `find_masters` returns; empty if the caller has."""
    if named:
        return ""
    if os.environ.get(MASTER_VARIABLE):
        return f"${MASTER_VARIABLE}"
    surrounding = surrounding_directory()
    if surrounding is not None:
        return f"the local cluster in {surrounding}"
    if configuration is not None and configuration.of(ClientOptions).master:
        return configuration.origin("client.master")
    return f"the local cluster in {default_directory()}"


def check_token_is_meant_for(configuration: "Configuration", master: str) -> None:
    """Refuse to show a token to a master that only a file of the current directory names.

    Such a file may have come with a cloned repository, and the token would go to whoever wrote it.
    A token in the same file was certainly meant for that master.
    """
    has_token = configuration.of(ClientOptions).token is not None
    if not configuration.is_from_folder("client.master") or not has_token:
        return
    if not configuration.is_from_folder("client.token"):
        raise InvalidOption(
            f"the token of {configuration.origin('client.token')} is not sent to {master}: only "
            f"{configuration.folder_file} in this directory names that master; if the file is "
            f"yours, name it: --config {quote(str(configuration.folder_file))} or "
            f"${NAMING}; or name the master: -m {master} or ${MASTER_VARIABLE}"
        )


def through_sockets(masters: str) -> str:
    """The same masters; those of a local cluster of this user are named by their sockets.

    Another user may have taken the port of a master that has died, but never its socket.
    """
    urls = parse_masters(masters)
    for directory in local_directories():
        with suppress(StartupFailed):
            # A damaged record is an error for those who look for the cluster there, not for others.
            urls = tuple(client_url_for(directory, url) for url in urls)
    return ",".join(urls)


def with_trusted_user(options: ClientOptions) -> ClientOptions:
    """Whoever has a local cluster shows no token to another user who listens on its port."""
    if options.server_user is not None or not any(map(_is_on_record, local_directories())):
        return options
    return replace(options, server_user=str(os.getuid()))


def _is_on_record(directory: Path) -> bool:
    return (directory / STATE_FILE).exists()


def masters_on_record(directory: Path) -> str | None:
    """URLs of the masters of the local cluster in this directory; None when there is none."""
    state = read_state(directory)
    if state is None:
        return None
    urls = client_urls_of(directory, state)
    if not urls:
        raise Unavailable(_silence_text(directory, state), directory=str(directory))
    return ",".join(urls)


def _silence_text(directory: Path, state: ClusterState) -> str:
    dead = ", ".join(f"{record.name} (pid {record.pid})" for record in state.dead)
    problem = (
        f"{dead} died; bring it back with: stoker cluster up"
        if dead
        else "its masters are still starting; try again"
    )
    return f"the local cluster in {directory} does not answer: {problem}"


def nothing_found(naming: str) -> Unavailable:
    """The error when there is no cluster; `naming` is how this caller names a master."""
    return Unavailable(
        f"no master is named, and no local cluster runs in {default_directory()}; name one with "
        f"{naming}, ${MASTER_VARIABLE} or the option client.master, or start a local cluster "
        "with: stoker cluster up"
    )


def name_masters_for_programs(configuration: "Configuration") -> None:
    """Let the programs that this process starts find its cluster: they inherit the variable.

    A local cluster needs none of this. Its configuration may even name another cluster, for
    commands in the directory in which it was started.
    """
    masters = configuration.of(ClientOptions).master
    if masters and surrounding_directory() is None:
        os.environ.setdefault(MASTER_VARIABLE, masters)


def configuration_if_set(
    file: Path | None = None, definitions: Sequence[str] = ()
) -> "Configuration | None":
    """The configuration from all sources; None when nothing is set anywhere.

    Reading it takes longer than most commands, because it imports the options of every part.
    """
    is_given = file is not None or bool(definitions)
    if is_given or may_be_set(os.environ, folder=Path.cwd(), home=Path.home()):
        return read_configuration(file, definitions)
    return None


def read_configuration(
    file: Path | None,
    definitions: Sequence[str],
    defaults: Mapping[str, str] | None = None,
) -> "Configuration":
    """The configuration from all sources.

    `file` is read in place of the usual one; `definitions` win over all other sources, and
    `defaults` give way to them.
    """
    # Imported late: most commands need no configuration, and should start fast.
    from stoker.config.load import load  # noqa: PLC0415
    from stoker.config.options import ALL  # noqa: PLC0415
    from stoker.config.tree import OptionTree  # noqa: PLC0415

    return load(
        OptionTree(ALL),
        environment=os.environ,
        file=file,
        definitions=definitions,
        defaults=defaults or {},
    )
