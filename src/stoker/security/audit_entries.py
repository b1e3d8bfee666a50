"""An entry of the audit log, as it is stored, answered by REST, and shown."""

from collections.abc import Iterable

from stoker.core.values import Value


class AuditEntry(Value):
    time: str
    """UTC, ISO 8601 with milliseconds."""
    caller: str
    """Name of the token, or the user of the machine; empty if the caller proved no identity."""
    address: str
    action: str
    """Method and route: `PATCH /jobs/{jobid}`; or what was done to a token."""
    object: str = ""
    """What the action was about: the id of a job, a task executor or a program, or a token."""
    outcome: str = ""
    """`done`, `refused` (the caller may not, or asked for something impossible), `failed`, or
    `unknown` for a request that was cut off before its answer."""
    status: int = 0
    """HTTP status of the answer; 0 for a change that no request made."""
    role: str = ""
    reason: str = ""
    """First sentence of a refusal or failure, or what was changed."""
    master: str = ""
    """Resource id of the master that answered."""
    sequence: int = 0
    """Number of the entry among those of its master, from 1 on, without gaps."""


def merge_entries(logs: Iterable[Iterable[AuditEntry]]) -> list[AuditEntry]:
    """Pure. The entries of several logs in the order of their time, each once.

    Entries of one master stay in their order, also if its clock was set back. Those of earlier
    releases have no number; whether two of them are the same is not known, so all stay.
    """
    entries = [entry for each in logs for entry in each]
    found = {(entry if entry.sequence else number): entry for number, entry in enumerate(entries)}
    latest: dict[str, str] = {}
    placed = []
    for entry in sorted(found.values(), key=lambda entry: (entry.master, entry.sequence)):
        at = entry.time
        if entry.sequence:
            at = latest[entry.master] = max(entry.time, latest.get(entry.master, ""))
        placed.append((at, entry.master, entry.sequence, entry))
    return [entry for *_, entry in sorted(placed, key=lambda each: each[:3])]
