"""How Spark writes the files of a checkpoint in a local directory.

Each batch writes at least two small files. By default Spark uses Hadoop's `FileContext`, which,
without Hadoop's native library, starts a process for each file name it examines: sixteen
`readlink` and four `chmod` per batch of the smallest stream, most of the batch's cost. Hadoop's
older `FileSystem` renames without checking for links and leaves four `chmod`.

It is no less safe: either way, checking a name and taking it are two steps. Other stores may do
this in one step (HDFS does, through `FileContext` only), so they keep Spark's default. A setting of
the user's always wins.
"""

from typing import Any

from stoker.engine.region.locations import SparkDirectory

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_WITHOUT_LINKS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def choose_file_manager(session: Any, checkpoint: SparkDirectory) -> None:
    """Applies to queries that the session starts from now on."""
    if checkpoint.local is not None and session.conf.get(FILE_MANAGER, None) is None:
        session.conf.set(FILE_MANAGER, _WITHOUT_LINKS)
