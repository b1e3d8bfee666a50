"""How a job is submitted: the parts of the request, and its answer."""

from stoker.api.shape import Camel
from stoker.core.ids import JobId

GRAPH_PART = "graph"
"""Name of the part that carries the job graph as JSON."""
ARTIFACT_PART = "artifact"
"""Name of each part that carries a file; it is recognized by its content, never by a name."""
IDEMPOTENCY_KEY = "Idempotency-Key"


class JobSubmitted(Camel, frozen=True, kw_only=True):
    """POST /jobs"""

    job_url: str
    job_id: JobId
    repeated: bool
    """The same job had been accepted before."""
