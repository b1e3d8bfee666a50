"""Directories of materialized results and of checkpoints, in the forms Spark and Python read."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from stoker.core.ids import safe_name
from stoker.osproc.private_files import claim_directory


@dataclass(frozen=True, kw_only=True)
class SparkDirectory:
    url: str
    """URL or path in the form that Spark reads."""
    local: Path | None
    """The same directory as a path; None if it is not on this machine's file system."""


def directory_below(root: str, name: str) -> SparkDirectory:
    parts = urlsplit(root)
    if parts.scheme == "":
        return SparkDirectory(url=f"{root.rstrip('/')}/{name}", local=Path(root) / name)
    if parts.scheme == "file":
        local = Path(unquote(parts.path)) / name
        # Spark reads a percent sign literally, not as an escape.
        return SparkDirectory(url=f"file://{local}", local=local)
    return SparkDirectory(url=f"{root.rstrip('/')}/{name}", local=None)


def make_private(directory: SparkDirectory) -> None:
    """Make the directory for its owner alone, before Spark makes it with the umask of the user.

    Errors are ignored: Spark cannot write there either, and reports that itself.
    """
    if directory.local is not None:
        with suppress(OSError):
            claim_directory(directory.local.parent, is_ours=True)
            claim_directory(directory.local, is_ours=True)


def checkpoint_directory(root: str, region: str) -> SparkDirectory:
    return directory_below(root, safe_name(region))


FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_WITHOUT_LINKS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def choose_file_manager(session: Any, checkpoint: SparkDirectory) -> None:
    """Choose how the queries that the session starts from now on write the files of a checkpoint.

    Each batch writes at least two small files. By default Spark uses Hadoop's `FileContext`, which,
    without Hadoop's native library, starts a process for each file name it examines: sixteen
    `readlink` and four `chmod` per batch of the smallest stream, most of the batch's cost. Hadoop's
    older `FileSystem` renames without checking for links and leaves four `chmod`.

    It is no less safe: either way, checking a name and taking it are two steps. Other stores may do
    this in one step (HDFS does, through `FileContext` only), so they keep Spark's default. A
    setting of the user's always wins.
    """
    if checkpoint.local is not None and session.conf.get(FILE_MANAGER, None) is None:
        session.conf.set(FILE_MANAGER, _WITHOUT_LINKS)
