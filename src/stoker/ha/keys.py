"""Keys at the coordinator and paths in the storage. Stored data depends on them: never rename."""

import hashlib
from typing import Final
from urllib.parse import quote

from stoker.core.ids import AttemptId, JobId, RegionId, ResourceId

ELECTION: Final = "election"
"""Ephemeral key of the process that leads."""
EPOCH: Final = "epoch"
"""The version of this record is the epoch. It is never deleted: versions would start again at 0."""

CLUSTER: Final = "cluster"
"""The identity of the cluster; its storage has the same one. Never deleted."""

SHUTDOWN: Final = "shutdown"
"""The last shutdown of the cluster; once completed, its record stays until the next one."""

JOBS: Final = "jobs"
RESULTS: Final = "results"
CANCELLATIONS: Final = "wishes"
ATTEMPTS: Final = "attempts"
REPLACEMENTS: Final = "replacements"
RECENT_EVENTS: Final = "events/recent"
EVENT_INDEX: Final = "events/index"
NOTED_SETTINGS: Final = "events/settings"
MASTERS: Final = "masters"
"""One ephemeral key for each running master."""


def leader(component: str) -> str:
    return f"leader/{component}"


def master(resource_id: ResourceId) -> str:
    return f"{MASTERS}/{part(resource_id)}"


def job(job_id: JobId) -> str:
    return f"{JOBS}/{job_id}"


def idempotency(text: str, owner: str = "") -> str:
    """Each owner of jobs has idempotency keys of his own; without owners all share them."""
    owned = f"{owner}\n{text}" if owner else text
    return f"idempotency/{digest(owned)}"


def result(job_id: JobId) -> str:
    return f"{RESULTS}/{job_id}"


def cancellation(job_id: JobId) -> str:
    return f"{CANCELLATIONS}/{job_id}"


def attempts(job_id: JobId) -> str:
    return f"{ATTEMPTS}/{job_id}"


def attempt(job_id: JobId, region: RegionId) -> str:
    return f"{attempts(job_id)}/{part(region)}"


def replacement(job_id: JobId, trigger_id: str) -> str:
    """Key at the coordinator, and folder of the content in the storage."""
    return f"{REPLACEMENTS}/{job_id}/{trigger_id}"


def job_folder(job_id: JobId) -> str:
    return f"jobs/{job_id}"


def graph_folder(job_id: JobId) -> str:
    return f"jobs/{job_id}/graph"


def details_folder(job_id: JobId) -> str:
    return f"results/{job_id}"


def outcomes_folder(job_id: JobId) -> str:
    return f"jobs/{job_id}/outcomes"


def outcomes_of_region(job_id: JobId, region: RegionId) -> str:
    return f"{outcomes_folder(job_id)}/{digest(region)[:32]}"


def outcome(job_id: JobId, region: RegionId, attempt_id: AttemptId) -> str:
    return f"{outcomes_of_region(job_id, region)}/{attempt_id}.json"


def results_folder(job_id: JobId) -> str:
    """Folder of the results of materialized vertices, and of the decisions to publish outputs."""
    return f"jobs/{job_id}/materialized"


def publication(region: RegionId) -> str:
    """Path within the folder of results; no vertex can have this name."""
    return f".publications/{digest(region)[:32]}.json"


LOG_CHUNK_BYTES: Final = 1024 * 1024
"""Logs are stored in chunks of this size, so that a reader need not load a whole log."""


def log_chunk(job_id: JobId, attempt_id: AttemptId, stream: str, number: int) -> str:
    return f"logs/{job_id}/{attempt_id}/{stream}/{number:06}"


def rows_folder(job_id: JobId) -> str:
    """Folder of the rows that the queries of a job returned."""
    return f"rows/{job_id}"


def rows_of_attempt(job_id: JobId, attempt_id: AttemptId) -> str:
    return f"{rows_folder(job_id)}/{attempt_id}"


def query_result(number: int) -> str:
    """Path of the record about a query's rows, within the folder of the attempt."""
    return f"{number:06}/result.json"


def query_rows(number: int, piece: int) -> str:
    """Path of a piece of a query's rows, within the folder of the attempt."""
    return f"{number:06}/rows-{piece:06}.json"


EVENTS_FOLDER: Final = "events"
"""Folder of the segments of the event log in the storage."""


def event_segment(epoch: int, number: int, nonce: str) -> str:
    """Path of the segment that begins with this event. Two leaders never write the same path."""
    return f"{EVENTS_FOLDER}/{epoch:010}-{number:012}-{nonce[:16]}.json"


def part(text: str) -> str:
    """Any text of a user as one part of a key; different texts give different parts."""
    return quote(text, safe="").replace(".", "%2E")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
