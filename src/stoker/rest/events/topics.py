"""The topics of an event stream: what one client follows over one connection. Pure."""

from dataclasses import dataclass

from stoker.core.errors import InvalidInput
from stoker.core.faults import did_you_mean
from stoker.core.ids import JobId
from stoker.rest.requests.parameters import parse_job_id

DEFAULT = "jobs,cluster"
MAX_JOBS = 20
"""Most jobs that one stream follows in detail; each is asked for twice a second."""
_PLAIN = ("jobs", "cluster", "log")
_JOB = "job"


@dataclass(frozen=True, kw_only=True)
class Topics:
    jobs: bool = False
    """The job list."""
    cluster: bool = False
    """Figures of the cluster."""
    log: bool = False
    """The event log."""
    job_ids: tuple[JobId, ...] = ()
    """Jobs that are followed in detail."""

    @property
    def of_feed(self) -> frozenset[str]:
        """Those that are answered from the changes which all streams share."""
        wanted = {"jobs": self.jobs, "cluster": self.cluster}
        return frozenset(name for name, is_wanted in wanted.items() if is_wanted)

    def names(self) -> list[str]:
        plain = [name for name in _PLAIN if getattr(self, name)]
        return [*plain, *(f"{_JOB}:{job_id}" for job_id in self.job_ids)]


def parse_topics(text: str) -> Topics:
    """Topics with commas: `jobs,cluster,log,job:3f…`."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    plain = {word for word in words if ":" not in word}
    for word in plain:
        if word not in _PLAIN:
            remedy = did_you_mean(word, (*_PLAIN, "job:ID"))
            raise InvalidInput(f"there is no topic {word[:100]!r}; {remedy}")
    job_ids: dict[JobId, None] = {}
    for word in words:
        name, colon, job_id = word.partition(":")
        if colon and name != _JOB:
            raise InvalidInput(f"there is no topic {word[:100]!r}; write job:ID to follow a job")
        if colon:
            job_ids[parse_job_id(job_id)] = None
    if len(job_ids) > MAX_JOBS:
        raise InvalidInput(
            f"one stream follows at most {MAX_JOBS} jobs in detail, found {len(job_ids)}; the "
            "topic jobs has all of them"
        )
    if not words:
        raise InvalidInput("name at least one topic: jobs, cluster, log or job:ID")
    return Topics(
        jobs="jobs" in plain,
        cluster="cluster" in plain,
        log="log" in plain,
        job_ids=tuple(job_ids),
    )
