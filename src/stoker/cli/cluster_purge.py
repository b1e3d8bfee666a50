"""The question before `stoker cluster down --purge` removes what cannot be had again."""

import sys
from pathlib import Path

import click

from stoker.cli.options.local_cluster import command_for
from stoker.cli.output import say
from stoker.core.errors import InvalidInput
from stoker.processes.local.losses import Losses, UnendedJob

_ID_DIGITS = 12
_MOST_LISTED = 10


def ask_before_purge(directory: Path, losses: Losses) -> None:
    """Return if nothing is lost or the user agrees.

    Raises InvalidInput if there is no terminal to ask at, and click.Abort if the user declines.
    """
    lines = loss_lines(losses)
    if not lines:
        return
    listing = "".join(f"\n  {line}" for line in lines)
    if not is_interactive():
        raise InvalidInput(
            f"this would remove for good, from {directory}:{listing}\n"
            "Nothing was stopped or removed. Keep a stream's place first with stoker stop JOB, or "
            f"remove all of it: {command_for(['down', '--purge', '--yes'], directory)}"
        )
    say(f"This removes for good, from {directory}:{listing}")
    if not click.confirm("Continue?", default=False, err=True):
        say("Nothing was stopped or removed.")
        raise click.Abort


def is_interactive() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def loss_lines(losses: Losses) -> list[str]:
    jobs = [_job_text(job) for job in losses.jobs]
    checkpoints = [f"kept checkpoint {path}" for path in losses.checkpoints]
    return [*_shortened(jobs, "jobs"), *_shortened(checkpoints, "kept checkpoints")]


def kept_text(directory: Path, savepoints: Path) -> str:
    remedy = command_for(["down", "--purge", "--with-savepoints"], directory)
    return (
        f"Removed the files in {directory}, but not the savepoints in {savepoints}. "
        f"To remove them, too: {remedy}"
    )


def _job_text(job: UnendedJob) -> str:
    name = job.name or "with a graph that cannot be read"
    what = " and its checkpoint" if job.has_checkpoint else ""
    return f"job {name} ({job.job_id[:_ID_DIGITS]}), which has not ended,{what}".rstrip(",")


def _shortened(lines: list[str], noun: str) -> list[str]:
    if len(lines) <= _MOST_LISTED:
        return lines
    return [*lines[:_MOST_LISTED], f"and {len(lines) - _MOST_LISTED} more {noun}"]
