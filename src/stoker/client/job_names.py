"""Which job a text means: an id, the beginning of one, or a name that several jobs may share."""

from collections.abc import Sequence

from stoker.api.jobs import JobOverview
from stoker.client import calls
from stoker.client.steps import Steps
from stoker.core.errors import InvalidInput, NotFound
from stoker.core.faults import did_you_mean
from stoker.core.ids import JobId, is_hex_id

_MOST_LISTED = 10


def whole_id(text: str) -> JobId | None:
    """The text as an id; None if it is a name or only the beginning of an id."""
    wanted = text.strip().lower()
    return JobId(wanted) if is_hex_id(wanted) else None


def find_job(text: str) -> Steps[JobId]:
    """The job with this id, this unique beginning of an id, or this name.

    A whole id is not looked up: its first use tells whether there is such a job.
    """
    return whole_id(text) or choose_job((yield from calls.jobs()), text.strip())


def choose_job(jobs: Sequence[JobOverview], wanted: str) -> JobId:
    """A name that several jobs share means the one that has not ended, else the newest of them.

    Several that run under the same name, or share the beginning of an id, are refused: the next
    command may cancel one.
    """
    by_name = [job for job in jobs if job.name == wanted]
    if by_name:
        alive = [job for job in by_name if not job.state.globally_terminal]
        found = alive or [max(by_name, key=lambda job: (job.start_time, job.end_time))]
    else:
        found = [job for job in jobs if wanted and job.jid.startswith(wanted.lower())]
    if len(found) == 1:
        return found[0].jid
    if not found:
        raise NotFound(
            f"no job is named {wanted!r}, and no id begins with it ({_hint(jobs, wanted)})"
        )
    listing = "".join(f"\n  {job.jid}  {job.name}  {job.state}" for job in found[:_MOST_LISTED])
    how = f"jobs named {wanted} have not ended" if by_name else f"ids begin with {wanted}"
    raise InvalidInput(f"several {how}; give more of the id:{listing}")


def _hint(jobs: Sequence[JobOverview], wanted: str) -> str:
    return did_you_mean(wanted, {job.name for job in jobs}, "stoker list --all shows the jobs")
