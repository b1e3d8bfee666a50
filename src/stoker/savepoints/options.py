"""Options of checkpoints and savepoints."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.job_options import RETENTION, Retention, read_retention
from stoker.core.options import option


@dataclass(frozen=True, kw_only=True)
class SavepointOptions:
    savepoint_directory: str | None = option(
        "execution.checkpointing.savepoint-dir",
        "Directory for savepoints that are requested without one: an absolute path or a URL that "
        "every master reaches.",
        None,
    )
    retained_directory: str | None = option(
        "execution.checkpointing.dir",
        "Directory of retained checkpoints of ended jobs; unset means the folder retained in the "
        "storage directory.",
        None,
    )
    retention: Retention = option(
        RETENTION,
        "Whether the last checkpoint of a streaming job outlives it: never, when the job failed "
        "(DELETE_ON_CANCELLATION), or also when it was cancelled (RETAIN_ON_CANCELLATION). A job "
        "can set it for itself in its configuration.",
        Retention.NO_EXTERNALIZED_CHECKPOINTS,
    )
    history: int = option(
        "web.checkpoints.history", "Number of checkpoints in the history of each job.", 10
    )
    stop_limit: timedelta = option(
        "savepoint.stop.boundary-timeout",
        "How long all queries of a job may take to reach a batch boundary when it is stopped with "
        "a savepoint; if one does not, the job continues.",
        timedelta(minutes=1),
    )
    timeout: timedelta = option(
        "execution.checkpointing.timeout",
        "How long a savepoint may take; after that it fails and the job continues.",
        timedelta(minutes=10),
    )

    def retention_of(self, configuration: dict[str, str]) -> Retention:
        """What applies to a job with this configuration."""
        try:
            return read_retention(configuration[RETENTION])
        except (KeyError, ValueError):
            # A wrong value is refused at submission; at the end of a job it must do no harm.
            return self.retention
