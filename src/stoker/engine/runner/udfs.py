"""Lets a UDF that was made without a Spark Connect session be used in one.

A job's file is usually read by a plain Python, where PySpark makes UDFs of its classic kind; these
want a JVM in their own process, which a runner does not have.
"""

from typing import Any

from pyspark.sql.connect.udf import UserDefinedFunction as ConnectUdf
from pyspark.sql.udf import UserDefinedFunction as ClassicUdf


def let_classic_udfs_run_on_connect() -> None:
    """Only for processes that have no classic session at all."""

    def call(self: Any, *columns: Any, **named: Any) -> Any:
        return ConnectUdf(
            self.func,
            returnType=self._returnType,
            name=self._name,
            evalType=self.evalType,
            deterministic=self.deterministic,
        )(*columns, **named)

    setattr(ClassicUdf, "__call__", call)  # noqa: B010
