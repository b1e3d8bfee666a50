"""How Spark writes the files of a checkpoint that lies in a directory.

Each batch writes two small files at least. Spark's usual way asks Hadoop's `FileContext`, which,
without Hadoop's native library, starts a process whenever it looks at a name: sixteen `readlink`
and four `chmod` for each batch of the smallest stream, most of what it costs. Hadoop's older
`FileSystem` renames without looking for links, and four `chmod` are left.

It is no less safe there: a name is looked for and then taken in two steps, either way. Only stores
of another kind can do that in one step (HDFS does, by `FileContext` alone), so they keep Spark's
choice; and whoever has chosen keeps his.
"""

from typing import Any

from stoker.engine.region.locations import SparkDirectory

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_WITHOUT_LINKS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def choose_file_manager(session: Any, checkpoint: SparkDirectory) -> None:
    """For the queries that the session starts from now on."""
    if checkpoint.local is not None and session.conf.get(FILE_MANAGER, None) is None:
        session.conf.set(FILE_MANAGER, _WITHOUT_LINKS)
