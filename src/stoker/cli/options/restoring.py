"""What a job may start from, and the job that starts from it."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click
import msgspec

from stoker.cli.locations import absolute_location
from stoker.cli.options.flink import Spelled
from stoker.core.graph import Restore
from stoker.pipeline.building import LoadedJob


def restore_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what a job may start from, as `restore`."""

    @click.option(
        "-s",
        "--from-savepoint",
        "savepoint",
        cls=Spelled,
        also=("--fromSavepoint",),
        metavar="PATH",
        help="Start from this savepoint or retained checkpoint.",
    )
    @click.option(
        "-n",
        "--allow-non-restored-state",
        "allow",
        cls=Spelled,
        also=("--allowNonRestoredState",),
        is_flag=True,
        help="Leave saved state behind that the job has no query for.",
    )
    @click.option(
        "-cm",
        "--claimMode",
        "-rm",
        "--restoreMode",
        "claim",
        hidden=True,
        expose_value=False,
        callback=_no_claim,
        metavar="MODE",
    )
    @functools.wraps(command)
    def with_restore(*args: Any, savepoint: str | None, allow: bool, **kwargs: Any) -> Any:
        path = absolute_location(savepoint)
        restore = None if path is None else Restore(path=path, allow_non_restored_state=allow)
        return command(*args, restore=restore, **kwargs)

    return with_restore


def _no_claim(_ctx: click.Context, _option: click.Parameter, mode: str | None) -> None:
    if mode is not None and mode.lower() != "no_claim":
        raise click.UsageError(
            f"--claimMode {mode}: a savepoint stays with its owner, whatever starts from it; "
            "leave the option out, and remove the savepoint with stoker savepoint dispose"
        )


def from_savepoint(loaded: LoadedJob, restore: Restore | None) -> LoadedJob:
    if restore is None:
        return loaded
    return replace(loaded, graph=msgspec.structs.replace(loaded.graph, restore=restore))
