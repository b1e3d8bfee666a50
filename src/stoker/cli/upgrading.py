"""Following a job that the cluster replaces by another version: told phase by phase."""

from collections.abc import Callable

import click

from stoker.api.replacements import ReplacementState
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.options.invocation import Invocation
from stoker.cli.output import echo_value
from stoker.cli.terminal import say
from stoker.client.blocking import BlockingClient
from stoker.core.ids import JobId
from stoker.core.replacements import ReplacementPhase

Say = Callable[[str], None]

_DOING = {
    ReplacementPhase.STOPPING: "Job {old_job_id} is being stopped with a savepoint.",
    ReplacementPhase.DIVIDING: "Its savepoint is {savepoint}; its state is being divided anew.",
    ReplacementPhase.STARTING: "Its savepoint is {savepoint}; the new version is being started.",
    ReplacementPhase.WATCHING: "Job {new_job_id} is the new version and is being watched.",
    ReplacementPhase.ENDING: "The new version does not do, and is being ended: {reason}",
    ReplacementPhase.RETURNING: "The old version is being started again: {reason}",
}


def told(state: ReplacementState) -> str:
    if state.failed:
        return f"Nothing was replaced: {state.reason}"
    origin = state.origin or state.savepoint
    if state.rolled_back:
        return (
            f"The new version does not do: {state.reason}\n"
            f"The old version goes on as job {state.job_id}, from {origin}."
        )
    if state.over:
        why = f" ({state.reason})" if state.reason else ""
        return f"Job {state.job_id} has the place of job {state.old_job_id}, from {origin}{why}."
    return _DOING[state.phase].format(
        old_job_id=state.old_job_id,
        new_job_id=state.new_job_id,
        savepoint=state.savepoint,
        reason=state.reason,
    )


def follow(client: BlockingClient, job_id: JobId, trigger_id: str, invocation: Invocation) -> int:
    """The cluster goes on with it when this command is interrupted."""
    state = client.replacement(job_id, trigger_id, lambda seen: say(told(seen)))
    say(told(state))
    if invocation.json:
        echo_value(state)
    elif not state.failed:
        click.echo(state.job_id)
    return FAILED if state.failed or state.rolled_back else OK
