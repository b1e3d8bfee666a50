"""Relative paths in the SQL statements of a classic driver.

Its JVM has the caller's directory for all other paths. Only a LOCATION is different: Spark would
resolve it in the warehouse, which is not the user's.
"""

from functools import wraps
from typing import Any

from pyspark.sql import SparkSession

from stoker.engine.region.relative_paths import RelativePaths
from stoker.engine.region.sql_paths import resolve_sql


def resolve_paths_of_statements(paths: RelativePaths) -> None:
    session: Any = SparkSession
    original = session.sql

    @wraps(original)
    def sql(self: Any, sqlQuery: str, *args: Any, **named: Any) -> Any:
        return original(self, resolve_sql(sqlQuery, paths), *args, **named)

    session.sql = sql
