"""An entry of the audit log, as it is stored, answered by REST, and shown."""

from stoker.core.values import Value


class AuditEntry(Value):
    time: str
    """UTC, ISO 8601 with milliseconds."""
    caller: str
    """Name of the token, or the user of the machine; empty if the caller proved no identity."""
    address: str
    action: str
    """Method and route: `PATCH /jobs/{jobid}`."""
    object: str = ""
    """What the action was about: the id of a job, a task executor or a program."""
    outcome: str = ""
    """`done`, `refused` (the caller may not, or asked for something impossible) or `failed`."""
    status: int = 0
    """HTTP status of the answer."""
    role: str = ""
    reason: str = ""
    """First sentence of a refusal or failure."""
