"""Bare Spark Connect sessions, the reference for jobs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

SETTINGS = {"spark.scheduler.mode": "FAIR", "spark.sql.shuffle.partitions": "2"}


@contextmanager
def bare_session() -> Iterator[Any]:
    """A session at a server that PySpark starts for it; `new_session` opens more of them there."""
    builder: Any = SparkSession.builder.remote("local[*]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def new_session(spark: Any) -> Iterator[Any]:
    """A separate session at the same server, released afterwards."""
    session = spark.newSession()
    try:
        yield session
    finally:
        session.client.release_session()
