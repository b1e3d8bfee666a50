"""Batches as directories of their own, by batch id."""

from collections.abc import Callable
from typing import Any

WriteBatch = Callable[[Any, int], None]
"""What `foreachBatch` takes: a function of a batch's DataFrame and its id."""


def files_by_batch(path: str, *, format: str = "parquet", **options: str) -> WriteBatch:
    """Each batch in `path/batch_id=N`, which readers see as a partition.

    A batch that is repeated replaces what its first try has left.
    """

    def write(frame: Any, batch_id: int) -> None:
        target = f"{path.rstrip('/')}/batch_id={batch_id}"
        frame.write.format(format).mode("overwrite").options(**options).save(target)

    return write
