"""Bare Spark Connect sessions, the reference for jobs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

SETTINGS = {"spark.scheduler.mode": "FAIR", "spark.sql.shuffle.partitions": "2"}


@contextmanager
def bare_session() -> Iterator[Any]:
    """Of a server that PySpark starts for it; further ones by `another`."""
    builder: Any = SparkSession.builder.remote("local[*]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def another(spark: Any) -> Iterator[Any]:
    """A session of its own at the same server, gone afterwards."""
    session = spark.newSession()
    try:
        yield session
    finally:
        session.client.release_session()
