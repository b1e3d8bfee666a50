"""What a function of `foreachBatch` creates is checked in the worker of Spark that runs it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from stoker.engine.streams.boundary import guard_function

WORKER = """
import pickle, sys
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.readwriter import DataFrameWriter

class Session:
    conf = property(lambda self: self)
    catalog = property(lambda self: self)
    def get(self, key, default):
        return default
    def currentCatalog(self):
        return "spark_catalog"

class Frame(DataFrame):
    def __init__(self):
        self.write = DataFrameWriter.__new__(DataFrameWriter)
        self.write._spark = Session()
    write = None

Frame.__module__ = DataFrame.__module__
function = pickle.loads(sys.stdin.buffer.read())
function(Frame(), 0)
"""


def save(frame: Any, _batch_id: int) -> None:
    frame.write.saveAsTable("forgotten")


def test_a_worker_refuses_a_table_that_would_be_forgotten(tmp_path: Path) -> None:
    """The worker is another process than the runner, so it has to be told by the function."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        payload = cloudpickle.dumps(guard_function(save, tmp_path / "no-order"))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    worker = subprocess.run(
        [sys.executable, "-c", WORKER], input=payload, capture_output=True, check=False
    )
    said = worker.stderr.decode()
    assert worker.returncode == 1, said
    assert "stoker.engine.failures.CannotRun: the table forgotten would be forgotten" in said
