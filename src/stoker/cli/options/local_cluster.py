"""The options about the local cluster: its directory, and what a start of it is told."""

import functools
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from stoker.processes.local.cluster_state import (
    ClusterState,
    LastStart,
    default_directory,
)

_SLOTS = "taskmanager.numberOfTaskSlots"
_REST_PORT = "rest.bind-port"


def directory_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--dir",
        "directory",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        default=default_directory,
        show_default="~/.stoker/local, or below $STOKER_HOME",
        help="Where the cluster keeps its files.",
    )(command)


@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """What the command line says about a start; None where it says nothing."""

    masters: int | None = None
    task_executors: int | None = None
    zookeeper: int | None = None
    slots: int | None = None
    rest_port: str | None = None
    no_token: bool = False

    @property
    def definitions(self) -> tuple[str, ...]:
        """The options of the configuration that have a flag of their own."""
        slots = () if self.slots is None else (f"{_SLOTS}={self.slots}",)
        return slots if self.rest_port is None else (*slots, f"{_REST_PORT}={self.rest_port}")

    def counts_unlike(self, state: ClusterState) -> list[str]:
        """The words of the flags that ask for another number of processes than there are."""
        pairs = (
            ("--masters", self.masters, state.masters),
            ("--task-executors", self.task_executors, state.task_executors),
            ("--zookeeper", self.zookeeper, state.zookeeper),
        )
        unlike = [(flag, str(n)) for flag, n, found in pairs if n is not None and n != len(found)]
        return [word for pair in unlike for word in pair]

    def completed_from(self, before: LastStart) -> "StartOptions":
        """The same, with the numbers of processes of the last start where none are given."""
        executors, zookeeper = self.task_executors, self.zookeeper
        return replace(
            self,
            masters=self.masters or before.masters,
            task_executors=before.task_executors if executors is None else executors,
            zookeeper=before.zookeeper if zookeeper is None else zookeeper,
        )

    def count_words(self) -> list[str]:
        """The words of the flags for numbers of processes that are not the usual ones."""
        usual = (
            ("--masters", self.masters, 1),
            ("--task-executors", self.task_executors, 1),
            ("--zookeeper", self.zookeeper, 0),
        )
        return [
            word
            for flag, n, usually in usual
            if n not in (None, usually)
            for word in (flag, str(n))
        ]


def command_for(words: list[str], directory: Path) -> str:
    """A command about this local cluster as the user can type it."""
    place = [] if directory == default_directory() else ["--dir", str(directory)]
    return shlex.join(["stoker", "cluster", *words, *place])


def flag_of(key: str, value: str) -> list[str]:
    """The words that set an option of the configuration on the command line."""
    flags = {_SLOTS: "--slots", _REST_PORT: "--rest-port"}
    return [flags[key], value] if key in flags else ["-D", f"{key}={value}"]


def start_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the number of processes, of slots, and the port, as `wanted`."""

    @click.option(
        "--masters",
        type=click.IntRange(1, 9),
        show_default="1, or as at the last start",
        help="Number of masters; one leads, the others are standbys.",
    )
    @click.option(
        "--task-executors",
        type=click.IntRange(0, 32),
        show_default="1, or as at the last start",
        help="Number of task executors, each with a Spark of its own.",
    )
    @click.option(
        "--zookeeper",
        type=click.IntRange(0, 9),
        show_default="0, or as at the last start",
        help="Number of ZooKeeper servers to start and coordinate with; 3 survive the loss of one.",
    )
    @click.option(
        "--slots",
        type=click.IntRange(1),
        help="Tasks that each task executor runs at the same time.",
    )
    @click.option(
        "--rest-port", metavar="PORT", help="Port, list or range of ports; 0 is any free port."
    )
    @click.option(
        "--no-token",
        is_flag=True,
        help="Let every user of this machine call REST, for tools that know no tokens.",
    )
    @functools.wraps(command)
    def with_start_options(
        *args: Any,
        masters: int | None,
        task_executors: int | None,
        zookeeper: int | None,
        slots: int | None,
        rest_port: str | None,
        no_token: bool,
        **kwargs: Any,
    ) -> Any:
        wanted = StartOptions(
            masters=masters,
            task_executors=task_executors,
            zookeeper=zookeeper,
            slots=slots,
            rest_port=rest_port,
            no_token=no_token,
        )
        return command(*args, wanted=wanted, **kwargs)

    return with_start_options
