"""Watching a job, or its replacement by another version, until the end.

Ctrl-C while a job is watched is a question to the user: cancel it, stop a streaming job with a
savepoint, keep watching, or leave it running. Another Ctrl-C, instead of an answer, cancels the
job, and one after that ends the command.
"""

import shlex
import sys
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

import click

from stoker.cli.display import Display
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.options.invocation import Invocation
from stoker.cli.output import echo_json, say
from stoker.client.blocking import BlockingClient
from stoker.core.errors import Conflict, StokerError
from stoker.core.ids import JobId
from stoker.core.replacements import ReplacementPhase
from stoker.core.results import JobDetails

if TYPE_CHECKING:
    from stoker.api.operations import ReplacementState

POLL_SECONDS = 0.4
"""A running job is asked for its progress this often; a change of its state shows at once."""


class InterruptChoice(Enum):
    """What the user wants after Ctrl-C."""

    CANCEL = auto()
    STOP = auto()
    """End the job with a savepoint."""
    WATCH = auto()
    LEAVE = auto()


AskUser = Callable[[], InterruptChoice]


def cancel_without_question() -> InterruptChoice:
    """The choice when there is no terminal to ask at."""
    return InterruptChoice.CANCEL


def leave_without_question() -> InterruptChoice:
    """The choice of a command that only watches."""
    return InterruptChoice.LEAVE


def ask_about_interrupt(*, can_leave: bool, can_stop: bool = False) -> AskUser:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return cancel_without_question
    words = ["[y]es", "[n]o"]
    words += ["[s]top it with a savepoint"] if can_stop else []
    words += ["[d]etach and leave it running"] if can_leave else []
    choices = ", ".join(words)

    def ask() -> InterruptChoice:
        try:
            answer = input(f"\nCancel the job? {choices} (Ctrl-C again cancels): ")
        except EOFError:
            return InterruptChoice.CANCEL
        match answer.strip().lower()[:1]:
            case "y":
                return InterruptChoice.CANCEL
            case "s" if can_stop:
                return InterruptChoice.STOP
            case "d" if can_leave:
                return InterruptChoice.LEAVE
            case _:
                return InterruptChoice.WATCH

    return ask


class UserLeft(Exception):
    """The user stopped watching; the job keeps running."""


class JobFollower:
    def __init__(
        self, client: BlockingClient, job_id: JobId, display: Display, ask: AskUser
    ) -> None:
        self._client = client
        self._job_id = job_id
        self._display = display
        self._ask = ask
        self.interrupted = False
        """The user has cancelled or stopped the job after Ctrl-C."""

    def until_end(self, greeting: str = "") -> JobDetails:
        """Return the job when it has ended. Raises UserLeft when the user leaves it running."""
        while True:
            try:
                if greeting:
                    # Inside of `try`, since Ctrl-C may well be the answer to this line.
                    self._display.say(greeting)
                    greeting = ""
                return self._watch()
            except KeyboardInterrupt:
                if self.interrupted:
                    raise
                self._handle_interrupt()

    def _watch(self) -> JobDetails:
        while True:
            details = self._client.job(self._job_id)
            self._display.show(details)
            if details.status.globally_terminal:
                return details
            self._client.wait_for_change(self._job_id, details.status, POLL_SECONDS)

    def _handle_interrupt(self) -> None:
        self._display.set_aside()
        try:
            choice = self._ask()
        except KeyboardInterrupt:
            choice = InterruptChoice.CANCEL
        match choice:
            case InterruptChoice.WATCH:
                return
            case InterruptChoice.LEAVE:
                raise UserLeft
            case InterruptChoice.STOP:
                self._stop()
            case InterruptChoice.CANCEL:
                self.interrupted = True
                self._display.say(f"Cancelling job {self._job_id}.")
                try:
                    self._client.cancel(self._job_id)
                except Conflict as error:
                    # The job ended while the question was being asked.
                    self._display.say(error.message)

    def _stop(self) -> None:
        self._display.say(f"Stopping job {self._job_id} at the next batch boundary.")
        try:
            path = self._client.stop(self._job_id)
        except StokerError as error:
            # The job continues, and so does the watching.
            self._display.say(f"The job was not stopped: {error.message}")
            return
        self.interrupted = True
        self._display.say(
            f"Its savepoint is {path}. Continue from there with: "
            f"stoker run -s {shlex.quote(path)} FILE"
        )


# Replacements

_PHASES = {
    ReplacementPhase.STOPPING: "Stopping job {old_job_id} with a savepoint.",
    ReplacementPhase.DIVIDING: "The savepoint is {savepoint}; repartitioning its state.",
    ReplacementPhase.STARTING: "The savepoint is {savepoint}; starting the new version.",
    ReplacementPhase.WATCHING: "The new version runs as job {new_job_id}; watching it for a while.",
    ReplacementPhase.ENDING: (
        "The new version is being cancelled{because}\n  (more: stoker status {new_job_id} --trace)"
    ),
    ReplacementPhase.RETURNING: "Starting the old version again{because}",
}


def replacement_text(state: "ReplacementState", told: str = "") -> str:
    """What has happened to the job; without the reason if that is what was `told` before."""
    is_told = bool(told) and state.reason == told
    because = "." if is_told else f": {state.reason}"
    if state.failed:
        return f"Nothing was replaced{because}"
    origin = state.origin or state.savepoint
    if state.rolled_back:
        return (
            f"The new version was rolled back{because}\n"
            f"The old version continues as job {state.job_id}, from {origin}."
        )
    if state.over:
        why = f" ({state.reason})" if state.reason and not is_told else ""
        return f"Job {state.job_id} has replaced job {state.old_job_id}, from {origin}{why}."
    return _PHASES[state.phase].format(
        old_job_id=state.old_job_id,
        new_job_id=state.new_job_id,
        savepoint=state.savepoint,
        because=because,
    )


def follow_replacement(
    client: BlockingClient, job_id: JobId, trigger_id: str, invocation: Invocation
) -> int:
    """Print each phase, return the exit code. An interrupt ends this command, not the operation."""
    told = ""

    def tell(seen: "ReplacementState") -> None:
        nonlocal told
        say(replacement_text(seen, told))
        told = seen.reason

    state = client.replacement(job_id, trigger_id, tell)
    tell(state)
    if invocation.json:
        echo_json(state)
    elif not state.failed:
        click.echo(state.job_id)
    return FAILED if state.failed or state.rolled_back else OK
