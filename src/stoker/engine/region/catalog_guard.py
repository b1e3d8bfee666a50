"""Refuses to create a table, view, function or database in a catalog that forgets it.

Without a metastore, the catalog of a Spark is a part of its memory. What a job creates there is
gone when that Spark ends, and no other task executor, and no program with a driver of its own, ever
sees it; the files of a table may be left behind, and then it cannot even be created again. A job
that is told that its table was created must be able to rely on it.

Everything goes on working with a metastore, with another catalog that the cluster or the job
configures, and with temporary views and functions, which belong to a session and are meant to.
Whoever wants tables that live only as long as their Spark says so with
`spark.sql.catalogImplementation=in-memory`.

PySpark has one method for each way to create something, on each of its two kinds of sessions. Each
of them is wrapped here; no other process sees the change.
"""

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from stoker.engine.failures import CannotRun
from stoker.engine.options import CATALOG_IMPLEMENTATION, WAREHOUSE
from stoker.engine.region.catalog_objects import (
    CatalogObject,
    ObjectKind,
    created_by,
    object_named,
)

_CATALOG = "spark.sql.catalog."
_SESSION_CATALOG = "spark_catalog"
_METASTORES = (
    "spark.hadoop.hive.metastore.uris",
    "spark.hive.metastore.uris",
    "spark.hadoop.javax.jdo.option.ConnectionURL",
    "spark.hadoop.hive.metastore.client.factory.class",
)
"""Settings of which each names a metastore."""
_MARK = "_stoker_catalog_guard"

SessionOf = Callable[[Any], Any]
"""The session of the object whose method is called."""


def check_catalog_keeps(session: Any, created: Iterable[CatalogObject]) -> None:
    """Raise CannotRun if the session's catalog would forget one of the objects."""
    for each in created:
        if not _is_kept(session, each):
            raise CannotRun(
                "NoCatalog",
                f"{each} would be forgotten: no catalog of this cluster keeps it when this Spark "
                "ends, or shows it to another task executor or engine. If it may end with this "
                "Spark, let the catalog be in memory, on a local cluster with: stoker cluster "
                f"restart -D {CATALOG_IMPLEMENTATION}=in-memory; on any other one the operator "
                "sets that in taskmanager.spark.properties. If it must last, set a metastore "
                f"there: {CATALOG_IMPLEMENTATION}: hive, spark.hadoop.hive.metastore.uris: "
                f"thrift://HOST:9083 and {WAREHOUSE}: URL. Or write to a path, or use a temporary "
                "view",
            )


def _is_kept(session: Any, created: CatalogObject) -> bool:
    match session.conf.get(CATALOG_IMPLEMENTATION, None):
        case None:
            pass
        case "hive":
            # Without a metastore, Hive keeps its own in a directory that ends with this Spark.
            if _has_metastore(session):
                return True
        case _:
            return True
    catalog = created.catalog
    if catalog is not None and session.conf.get(f"{_CATALOG}{catalog}", None) is not None:
        return True
    if session.conf.get(f"{_CATALOG}{_SESSION_CATALOG}", None) is not None:
        return True
    return catalog != _SESSION_CATALOG and session.catalog.currentCatalog() != _SESSION_CATALOG


def _has_metastore(session: Any) -> bool:
    if any(session.conf.get(setting, None) for setting in _METASTORES):
        return True
    places = [Path(os.environ.get(name, "/")) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR")]
    places.append(Path(os.environ.get("SPARK_HOME", "/"), "conf"))
    return any((place / "hive-site.xml").is_file() for place in places)


def guard_connect_sessions() -> None:
    """Check everything that Spark Connect sessions of this process create from now on."""
    # Imported here: a process has sessions of one kind only.
    from pyspark.sql.connect.catalog import Catalog  # noqa: PLC0415
    from pyspark.sql.connect.readwriter import (  # noqa: PLC0415
        DataFrameWriter,
        DataFrameWriterV2,
    )
    from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415
    from pyspark.sql.connect.streaming.readwriter import DataStreamWriter  # noqa: PLC0415

    _guard_sql(SparkSession)
    _guard_named(DataFrameWriter, ("saveAsTable",), lambda writer: writer._spark)
    _guard_writer_v2(DataFrameWriterV2, lambda writer: writer._table_name)
    _guard_named(DataStreamWriter, ("toTable",), lambda writer: writer._session)
    _guard_named(Catalog, ("createTable",), lambda catalog: catalog._sparkSession)


def guard_classic_sessions() -> None:
    """Check everything that classic sessions of this process create from now on."""
    from pyspark.sql.catalog import Catalog  # noqa: PLC0415
    from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2  # noqa: PLC0415
    from pyspark.sql.session import SparkSession  # noqa: PLC0415
    from pyspark.sql.streaming.readwriter import DataStreamWriter  # noqa: PLC0415

    _guard_sql(SparkSession)
    _guard_named(DataFrameWriter, ("saveAsTable",), lambda writer: writer._spark)
    _remember_table(DataFrameWriterV2)
    _guard_writer_v2(DataFrameWriterV2, lambda writer: writer._stoker_table)
    _guard_named(DataStreamWriter, ("toTable",), lambda writer: writer._spark)
    _guard_named(Catalog, ("createTable",), lambda catalog: catalog._sparkSession)


def guard_sessions_of(frame: Any) -> None:
    """Check what a function of `foreachBatch` creates, in whichever process it runs."""
    if type(frame).__module__.startswith("pyspark.sql.connect."):
        guard_connect_sessions()
    else:
        guard_classic_sessions()


def _guard_sql(kind: type) -> None:
    def check(session: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        query = arguments[0] if arguments else named.get("sqlQuery")
        if isinstance(query, str):
            check_catalog_keeps(session, created_by(query))

    _wrap(kind, "sql", check)


def _guard_named(kind: type, methods: Iterable[str], session_of: SessionOf) -> None:
    """Guard methods whose first argument is the name of a table."""

    def check(owner: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        name = arguments[0] if arguments else named.get("name", named.get("tableName", ""))
        if isinstance(name, str):
            check_catalog_keeps(session_of(owner), [object_named(ObjectKind.TABLE, name)])

    for method in methods:
        _wrap(kind, method, check)


def _guard_writer_v2(kind: type, table_of: Callable[[Any], str]) -> None:
    def check(writer: Any, _arguments: tuple[Any, ...], _named: dict[str, Any]) -> None:
        table = object_named(ObjectKind.TABLE, table_of(writer))
        check_catalog_keeps(writer._spark, [table])

    for method in ("create", "replace", "createOrReplace"):
        _wrap(kind, method, check)


def _remember_table(kind: Any) -> None:
    """Let a classic writer know the table that it was made for; it only tells its JVM."""

    def remember(writer: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        writer._stoker_table = arguments[1] if len(arguments) > 1 else named["table"]

    _wrap(kind, "__init__", remember)


def _wrap(
    kind: Any, method: str, check: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
) -> None:
    original = getattr(kind, method)
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def checked(self: Any, *arguments: Any, **named: Any) -> Any:
        check(self, arguments, named)
        return original(self, *arguments, **named)

    setattr(checked, _MARK, True)
    setattr(kind, method, checked)
