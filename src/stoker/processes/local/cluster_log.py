"""What a process of a local cluster said before it ended."""

from pathlib import Path

from stoker.processes.local.cluster_process import ProcessRecord

LAST_WORDS = "Error: "
"""How a process of ours begins the line that tells why it ends."""
_TAIL_LINES = 15


def reason_in(record: ProcessRecord) -> str:
    """Its own last words, else the end of its log."""
    try:
        with Path(record.log).open("rb") as log:
            log.seek(record.log_start)
            lines = log.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"and its log {record.log} cannot be read: {error.strerror or error}"
    starts = [number for number, line in enumerate(lines) if line.startswith(LAST_WORDS)]
    if starts:
        return "\n".join(lines[starts[-1] :]).removeprefix(LAST_WORDS).strip()
    if not lines:
        return f"it wrote nothing to {record.log}"
    tail = "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:])
    return f"the end of {record.log} is\n{tail}"
