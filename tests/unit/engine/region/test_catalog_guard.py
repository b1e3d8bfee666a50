"""What a Spark without a metastore would forget is refused, and everything else works."""

from pathlib import Path
from typing import Any

import pytest

from stoker.core.errors import InvalidOption
from stoker.engine.failures import CannotRun, failure_of
from stoker.engine.options import EngineOptions
from stoker.engine.region.catalog_guard import check_catalog_keeps
from stoker.engine.region.catalog_objects import created_by

HIVE = {"spark.sql.catalogImplementation": "hive"}


class Session:
    """A session with these settings."""

    def __init__(self, current: str = "spark_catalog", **settings: str) -> None:
        self._settings = {key.replace("__", "."): value for key, value in settings.items()}
        self._current = current

    @property
    def conf(self) -> "Session":
        return self

    @property
    def catalog(self) -> "Session":
        return self

    def get(self, key: str, default: str | None) -> str | None:
        return self._settings.get(key, default)

    def currentCatalog(self) -> str:
        return self._current


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


def create(statement: str, session: Any) -> None:
    check_catalog_keeps(session, created_by(statement))


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE ts AS SELECT 1",
        "CREATE DATABASE d",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE spark_catalog.default.ts AS SELECT 1",
        "CREATE TABLE other.ts AS SELECT 1",
        "CREATE TABLE IDENTIFIER(:name) AS SELECT 1",
    ],
)
def test_without_a_metastore_the_refusal_names_the_options(statement: str) -> None:
    with pytest.raises(CannotRun) as refused:
        create(statement, Session())
    for words in (
        "Or write to a path",
        "temporary view",
        "taskmanager.spark.properties",
        "spark.sql.catalogImplementation: hive",
        "spark.hadoop.hive.metastore.uris",
        "spark.sql.warehouse.dir",
    ):
        assert words in refused.value.message
    # The shortest cure comes first: most who read this use a local cluster.
    cure = "stoker cluster restart -D spark.sql.catalogImplementation=in-memory"
    assert refused.value.message.index(cure) < refused.value.message.index("hive")
    failure = failure_of(refused.value)
    assert (failure.error, failure.retriable) == ("NoCatalog", False)


@pytest.mark.parametrize(
    "session",
    [
        Session(**HIVE, spark__hadoop__hive__metastore__uris="thrift://here:9083"),
        Session(**HIVE, spark__hadoop__javax__jdo__option__ConnectionURL="jdbc:postgresql://db"),
        Session(**{"spark.sql.catalogImplementation": "in-memory"}),
        Session(**{"spark.sql.catalog.spark_catalog": "org.x.Catalog"}),
        Session(current="lake", **{"spark.sql.catalog.lake": "org.x.Catalog"}),
    ],
)
def test_with_a_catalog_of_the_users_choice_everything_is_created(session: Session) -> None:
    create("CREATE TABLE ts AS SELECT 1", session)


def test_a_hive_catalog_without_a_metastore_forgets_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`enableHiveSupport()` alone makes Spark keep a metastore in a directory of its own."""
    with pytest.raises(CannotRun):
        create("CREATE TABLE ts AS SELECT 1", Session(**HIVE))
    (tmp_path / "hive-site.xml").write_text("<configuration/>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    create("CREATE TABLE ts AS SELECT 1", Session(**HIVE))


def test_another_catalog_keeps_what_is_created_in_it() -> None:
    session = Session(**{"spark.sql.catalog.lake": "org.x.Catalog"})
    create("CREATE TABLE lake.db.ts AS SELECT 1", session)
    with pytest.raises(CannotRun):
        create("CREATE TABLE db.ts AS SELECT 1", session)


def test_a_catalog_in_current_use_does_not_save_a_table_of_the_session_catalog() -> None:
    session = Session(current="lake", **{"spark.sql.catalog.lake": "org.x.Catalog"})
    with pytest.raises(CannotRun):
        create("CREATE TABLE spark_catalog.db.ts AS SELECT 1", session)


def test_a_metastore_needs_a_warehouse_that_all_reach() -> None:
    with pytest.raises(InvalidOption, match=r"spark\.sql\.warehouse\.dir"):
        EngineOptions(spark_properties=HIVE)
    EngineOptions(spark_properties={**HIVE, "spark.sql.warehouse.dir": "/shared"})
