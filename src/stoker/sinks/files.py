"""Write each batch into a directory of its own, named by the batch id."""

from collections.abc import Callable
from typing import Any

WriteBatch = Callable[[Any, int], None]
"""Function for `foreachBatch`: takes a batch's DataFrame and its id."""


def files_by_batch(path: str, *, format: str = "parquet", **options: str) -> WriteBatch:
    """Write each batch to `path/batch_id=N`, which readers see as a partition.

    A repeated batch replaces what its first attempt wrote.
    """

    def write(frame: Any, batch_id: int) -> None:
        target = f"{path.rstrip('/')}/batch_id={batch_id}"
        frame.write.format(format).mode("overwrite").options(**options).save(target)

    return write
