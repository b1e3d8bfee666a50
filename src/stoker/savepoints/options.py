"""Options of checkpoints and savepoints."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.errors import InvalidInput
from stoker.core.job_options import (
    CONTINUE_OUTPUT,
    RETENTION,
    Retention,
    read_flag,
    read_retention,
)
from stoker.core.options import option

SAVEPOINT_DIRECTORY = "execution.checkpointing.savepoint-dir"
RETAINED_DIRECTORY = "execution.checkpointing.dir"
USE_WITHOUT_OWNER = "savepoint.use-without-owner"


@dataclass(frozen=True, kw_only=True)
class SavepointOptions:
    savepoint_directory: str | None = option(
        SAVEPOINT_DIRECTORY,
        "Directory for savepoints that are requested without one: an absolute path or a URL that "
        "every master reaches. A local cluster sets it to savepoints in its own directory.",
        None,
    )
    allowed_schemes: tuple[str, ...] = option(
        "savepoint.allowed-schemes",
        "Kinds of storage that requests may name for savepoints, by the scheme of their URLs, such "
        "as s3 or hdfs; file and those of the configured directories need no entry.",
        (),
    )
    use_without_owner: bool = option(
        USE_WITHOUT_OWNER,
        "Whether tokens of the role submit may use savepoints that name no owner, because an "
        "earlier release took them. Tokens of the role operate may use all.",
        False,
    )
    retained_directory: str | None = option(
        RETAINED_DIRECTORY,
        "Directory of retained checkpoints of ended jobs; unset means the folder retained in the "
        "storage directory.",
        None,
    )
    retention: Retention = option(
        RETENTION,
        "Whether the last checkpoint of a streaming job outlives it: never, when the job failed "
        "(DELETE_ON_CANCELLATION), or also when it was cancelled or has finished "
        "(RETAIN_ON_CANCELLATION). A job can set it for itself in its configuration.",
        Retention.RETAIN_ON_CANCELLATION,
    )
    retained_max_count: int = option(
        "execution.checkpointing.retained.max-count",
        "How many retained checkpoints of jobs with the same name are kept, the newest. Clusters "
        "that share a directory count together.",
        5,
    )
    retained_max_age: timedelta = option(
        "execution.checkpointing.retained.max-age",
        "How long a retained checkpoint is kept.",
        timedelta(days=90),
    )
    continue_output: bool = option(
        CONTINUE_OUTPUT,
        "Whether a streaming job that writes into the output of an ended job of the same name "
        "continues from that job's last checkpoint. Otherwise Spark would skip batches, and the "
        "job is refused (SinkIsAhead). A job can set it for itself in its configuration.",
        True,
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

    def directory_for(self, requested: str | None) -> str:
        """The directory of a savepoint, or of a list of savepoints; InvalidInput without any."""
        directory = requested or self.savepoint_directory
        if directory is None:
            raise InvalidInput(
                "no directory is named for savepoints; name one (--savepoint-path DIR of stoker "
                "stop, upgrade and rescale; stoker savepoint trigger JOB DIR; stoker savepoint "
                f"list DIR), or set {SAVEPOINT_DIRECTORY} for the cluster"
            )
        return directory

    def retention_of(self, configuration: dict[str, str]) -> Retention:
        """What applies to a job with this configuration."""
        try:
            return read_retention(configuration[RETENTION])
        except (KeyError, ValueError):
            # A wrong value is refused at submission; at the end of a job it must do no harm.
            return self.retention

    def continues_output(self, configuration: dict[str, str]) -> bool:
        """What applies to a job with this configuration."""
        text = configuration.get(CONTINUE_OUTPUT)
        return self.continue_output if text is None else read_flag(text)
