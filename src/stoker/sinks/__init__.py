"""Functions for `foreachBatch` that write every batch exactly once, even if Spark repeats one."""

from stoker.sinks.files import files_by_batch
from stoker.sinks.postgres import append_to_postgres, upsert_to_postgres

__all__ = ["append_to_postgres", "files_by_batch", "upsert_to_postgres"]
