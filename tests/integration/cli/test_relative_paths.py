"""Relative paths mean the caller's directory, on a cluster whose processes work elsewhere.

The name of that directory is one that shells, URLs, Java and Spark misread.
"""

import json
import os
import re
import shutil
from pathlib import Path

import pyarrow.parquet
import pytest

from builders import ODD_NAME
from integration.cli.conftest import CommandLine

ROOT = Path(__file__).parents[3]
ENGINES = ("connect", "classic")
PEOPLE = "name,age\nana,30\nben,40\n"
PIPELINE = """
from stoker import Pipeline
from cleaning import clean

people = Pipeline("relative")
people.source("declared", format="csv", path="data/people.csv", header=True)

@people.source
def read(spark):
    with open("by-python.txt", "w") as file:
        file.write("here")
    return clean(spark.read.csv("data/people.csv", header=True))

people.transform("both", sql="SELECT * FROM declared UNION ALL SELECT * FROM read")
people.sink("both", format="json", path="by-sink", mode="overwrite", partition_by="name")
"""
FUNCTION = """
@people.sink("both", name="function")
def write(df):
    df.write.json("by-function", mode="overwrite")
"""
CLEANING = """
from pyspark.sql.functions import udf
from pyspark.sql.types import StringType

@udf(StringType())
def upper(text):
    return text.upper()

def clean(frame):
    return frame.withColumn("name", upper("name"))
"""
SCRIPT = """
CREATE TEMPORARY VIEW people USING csv OPTIONS (path 'data/people.csv', header 'true');
INSERT OVERWRITE DIRECTORY 'by-sql' USING json
  SELECT name FROM people UNION ALL SELECT _c0 FROM csv.`data/people.csv`;
"""
PROGRAM = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
people = spark.read.csv("data/people.csv", header=True)
people.write.json("by-program", mode="overwrite")
with open("by-python.txt", "w") as file:
    file.write("here")
"""
STREAM = """
from stoker import Pipeline

people = Pipeline("relative-stream")
people.source("lines", format="text", path="data", streaming=True, schema="value STRING")

@people.sink("lines", trigger="available-now")
def write(df, batch_id):
    with open("data/people.csv") as file:
        assert file.read()
    df.write.mode("overwrite").text(f"by-batch/{batch_id}")
"""


WORKERS_PIPELINE = """
from pyspark.sql.functions import udf
from pyspark.sql.types import StringType
from stoker import Pipeline

p = Pipeline("workers")

@udf(StringType())
def looked_up(_):
    with open("{file}") as file:
        return file.read().strip()

@p.source
def ids(spark):
    return spark.range(4).select(looked_up("id").alias("word"))

p.sink("ids", format="json", path="by-workers", mode="overwrite")
"""
WORKERS_PROGRAM = """
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import StringType

spark = SparkSession.builder.getOrCreate()

def looked_up(_):
    with open("{file}") as file:
        return file.read().strip()

rows = spark.range(4).select(udf(looked_up, StringType())("id").alias("word"))
rows.write.json("by-workers", mode="overwrite")
"""
ROWS_OF_AN_RDD = """
assert spark.sparkContext.parallelize(range(4)).map(looked_up).distinct().collect() == ["word"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The directory of a user, in which nothing but inputs is yet."""
    directory = tmp_path / ODD_NAME
    (directory / "data").mkdir(parents=True)
    (directory / "data" / "people.csv").write_text(PEOPLE)
    (directory / "cleaning.py").write_text(CLEANING)
    return directory


def rows(directory: Path) -> int:
    return sum(
        len(file.read_text().splitlines())
        for file in directory.rglob("part-*")
        if not file.name.startswith(".")
    )


def outputs_outside(stoker: CommandLine) -> list[str]:
    return [
        name
        for _, folders, files in os.walk(stoker.home)
        for name in (*folders, *files)
        if name.startswith("by-")
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pipeline_reads_and_writes_in_the_callers_directory(
    stoker: CommandLine, project: Path, engine: str
) -> None:
    (project / "job.py").write_text(PIPELINE)
    stoker("run", "job.py", "--engine", engine, cwd=project)
    names = sorted(path.name for path in (project / "by-sink").glob("name=*"))
    assert names == ["name=ANA", "name=BEN", "name=ana", "name=ben"]
    assert (project / "by-python.txt").read_text() == "here"
    assert outputs_outside(stoker) == []


def test_a_function_as_a_sink_writes_in_the_callers_directory(
    stoker: CommandLine, project: Path
) -> None:
    (project / "job.py").write_text(PIPELINE + FUNCTION)
    stoker("run", "job.py", cwd=project)
    assert rows(project / "by-function") == 4
    assert outputs_outside(stoker) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_sql_script_reads_and_writes_in_the_callers_directory(
    stoker: CommandLine, project: Path, engine: str
) -> None:
    (project / "job.sql").write_text(SCRIPT)
    stoker("run", "job.sql", "--engine", engine, cwd=project)
    assert rows(project / "by-sql") == 5
    assert outputs_outside(stoker) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_program_reads_and_writes_in_the_callers_directory(
    stoker: CommandLine, project: Path, engine: str
) -> None:
    (project / "job.py").write_text(PROGRAM)
    stoker("run", "job.py", "--engine", engine, cwd=project)
    assert rows(project / "by-program") == 2
    assert (project / "by-python.txt").read_text() == "here"
    assert outputs_outside(stoker) == []


def test_a_function_for_batches_writes_in_the_callers_directory(
    stoker: CommandLine, project: Path
) -> None:
    """Spark Connect runs it in a process of its own."""
    (project / "job.py").write_text(STREAM)
    stoker("run", "job.py", cwd=project)
    assert rows(project / "by-batch") == 3
    assert outputs_outside(stoker) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("job", [WORKERS_PIPELINE, WORKERS_PROGRAM], ids=["pipeline", "program"])
def test_a_function_on_workers_opens_files_in_the_callers_directory(
    stoker: CommandLine, project: Path, engine: str, job: str
) -> None:
    (project / "data" / "word.txt").write_text("word")
    text = job.format(file="data/word.txt")
    if (job, engine) == (WORKERS_PROGRAM, "classic"):
        text += ROWS_OF_AN_RDD
    (project / "job.py").write_text(text)
    stoker("run", "job.py", "--engine", engine, cwd=project)
    written = [
        json.loads(line)["word"]
        for file in (project / "by-workers").glob("part-*.json")
        for line in file.read_text().splitlines()
    ]
    assert written == ["word"] * 4


def test_a_function_on_workers_opens_the_files_that_its_job_brings(
    stoker: CommandLine, project: Path
) -> None:
    (project / "word.txt").write_text("sent")
    (project / "job.py").write_text(WORKERS_PIPELINE.format(file="word.txt"))
    job = stoker.submit(project / "job.py", "--file", str(project / "word.txt"))
    stoker("wait", job)
    assert rows(stoker.home / "by-workers") == 4
    shutil.rmtree(stoker.home / "by-workers")


def test_the_first_job_of_the_readme_works_in_the_background(
    stoker: CommandLine, project: Path
) -> None:
    readme = (ROOT / "README.md").read_text()
    shutil.copy(ROOT / "README.md", project)
    blocks = re.findall(r"```python[^\n]*\n(.*?)```", readme, re.DOTALL)
    [words] = [block for block in blocks if 'Pipeline("words"' in block]
    (project / "words.py").write_text(words)
    params = ("--param", "text=README.md", "--param", "out=by-words")
    job = stoker("run", "-d", "words.py", *params, cwd=project).stdout.strip()
    stoker("wait", job)
    assert rows_of_parquet(project / "by-words") > 100
    assert json.loads(stoker("status", job, "--json").stdout)["status"] == "FINISHED"


def rows_of_parquet(directory: Path) -> int:
    return int(pyarrow.parquet.read_table(directory).num_rows)
