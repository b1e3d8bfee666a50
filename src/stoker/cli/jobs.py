"""Which job is meant by what was typed."""

from stoker.client.blocking import BlockingClient
from stoker.core.errors import InvalidInput, JobNotFound
from stoker.core.ids import JobId, is_hex_id


def job_named(client: BlockingClient, text: str) -> JobId:
    """By its id or by a beginning of it that no other job has."""
    wanted = text.strip().lower()
    if is_hex_id(wanted):
        return JobId(wanted)
    found = [job for job in client.jobs() if job.jid.startswith(wanted)] if wanted else []
    if len(found) == 1:
        return found[0].jid
    if not found:
        raise JobNotFound(f"{text} (stoker list --all shows the jobs)")
    listing = "".join(f"\n  {job.jid}  {job.name}" for job in found[:10])
    raise InvalidInput(f"several jobs begin with {text}; give more digits:{listing}")
