"""Tables either outlive the Spark that created them, for both engines, or are refused."""

import json
import subprocess
from pathlib import Path

import pytest

from integration.cli.conftest import CommandLine
from integration.metastore import metastore

REFUSED = {
    "table.sql": "CREATE TABLE forgotten USING parquet AS SELECT 1 AS a",
    "database.sql": "SELECT 1; CREATE DATABASE forgotten",
    "view.sql": "CREATE VIEW forgotten AS SELECT 1 AS a",
    "sink.py": """
from stoker import Pipeline

tables = Pipeline("table-sink")
tables.source("one", sql="SELECT 1 AS a")
tables.sink("one", table="forgotten", mode="overwrite")
""",
    "function.py": """
from stoker import Pipeline

tables = Pipeline("table-function")

@tables.source
def one(spark):
    spark.range(1).writeTo("forgotten").using("parquet").createOrReplace()
    return spark.range(1)

tables.sink("one", format="noop", mode="overwrite")
""",
    "program.py": """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.range(1).write.saveAsTable("forgotten")
""",
    "statement.py": """
from pyspark.sql import SparkSession

spark = SparkSession.builder.enableHiveSupport().getOrCreate()
spark.sql("CREATE TABLE forgotten AS SELECT 1 AS a")
""",
}
TEMPORARY = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.range(3).createOrReplaceTempView("three")
spark.sql("CREATE OR REPLACE TEMPORARY VIEW few AS SELECT id FROM three WHERE id > 0")
assert spark.table("few").count() == 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {**REFUSED, "temporary.py": TEMPORARY}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def refusal_of(stoker: CommandLine, job: Path, *options: str) -> str:
    """What a failing job says. A program that fails may print a traceback, as in Python."""
    done = subprocess.run(
        [*stoker.command, "run", str(job), *options],
        env=stoker.environment,
        cwd=stoker.home,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", REFUSED)
def test_without_a_metastore_a_table_is_refused_with_the_options_to_set(
    stoker: CommandLine, folder: Path, name: str
) -> None:
    said = refusal_of(stoker, folder / name)
    assert "forgotten would be forgotten" in said
    assert "spark.hadoop.hive.metastore.uris" in said


@pytest.mark.parametrize("engine", ["connect", "classic"])
def test_programs_are_refused_on_both_engines_and_temporary_views_work(
    stoker: CommandLine, folder: Path, engine: str
) -> None:
    said = refusal_of(stoker, folder / "program.py", "--engine", engine)
    assert "forgotten would be forgotten" in said
    stoker("run", folder / "temporary.py", "--engine", engine)


@pytest.mark.timeout(600)
def test_with_a_metastore_both_engines_share_tables_that_outlive_the_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("home")
    stoker = CommandLine(home)
    warehouse = home / "warehouse"
    (home / "create.sql").write_text(
        "CREATE DATABASE shop; CREATE TABLE shop.orders USING parquet AS SELECT 7 AS amount"
    )
    (home / "add.py").write_text(
        """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
assert [row.amount for row in spark.table("shop.orders").collect()] == [7]
spark.sql("SELECT 8 AS amount").write.mode("append").saveAsTable("shop.orders")
spark.range(3).write.saveAsTable("shop.made_by_a_program")
"""
    )
    (home / "read.sql").write_text(
        "INSERT OVERWRITE DIRECTORY '${out}' USING json "
        "SELECT sum(amount) AS total, (SELECT count(*) FROM shop.made_by_a_program) AS made "
        "FROM shop.orders".replace("${out}", str(home / "out"))
    )
    with metastore(home / "metastore", warehouse) as url:
        (home / "stoker.yml").write_text(
            "taskmanager.spark.properties:\n"
            "  spark.sql.catalogImplementation: hive\n"
            f"  spark.hadoop.hive.metastore.uris: {url}\n"
            f"  spark.sql.warehouse.dir: {warehouse.as_uri()}\n"
        )
        up = ("cluster", "up", "--rest-port", "0")
        try:
            stoker(*up)
            stoker("run", home / "create.sql")
            stoker("run", home / "add.py", "--engine", "classic")
            stoker("cluster", "down")
            stoker(*up)
            stoker("run", home / "read.sql")
        finally:
            stoker("cluster", "down", "--purge", "--yes")
    (part,) = (home / "out").glob("part-*")
    assert json.loads(part.read_text()) == {"total": 15, "made": 3}
