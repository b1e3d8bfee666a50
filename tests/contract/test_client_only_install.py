"""The client as `pip install stoker` installs it: without stoker[cluster]."""

import asyncio
import sys
from pathlib import Path

import pytest

from stoker.core.extras import CLUSTER_MODULES, REMEDY
from stoker.core.graph import Program, SqlScript
from stoker.core.ids import JobId
from stoker.testing.rest import Master

BLOCKER = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {{"numpy", "py4j", *{CLUSTER_MODULES!r}}}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
COMMAND_LINE = """
from stoker.cli.main import main
main()
"""
YAML = """
name: copy
sources:
  orders: {format: csv, path: in}
sinks:
  copies: {input: orders, format: parquet, path: out}
"""
WITH_FUNCTION = """
from stoker import Pipeline
orders = Pipeline("orders")
@orders.source
def numbers(spark):
    return spark.range(3)
orders.sink("numbers", format="noop")
"""


async def python(code: str, *arguments: str, folder: Path) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", BLOCKER + code, *arguments),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"STOKER_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"},
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_yaml_sql_and_programs_are_submitted(tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(YAML)
    (tmp_path / "program.py").write_text("from pyspark.sql import SparkSession\n")
    code = """
import asyncio
import stoker

with stoker.connect(sys.argv[1]) as cluster:
    print(cluster.submit("job.yml").id)
    print(cluster.sql("SELECT 1").id)
    print(cluster.submit("program.py").id)
    print(len(cluster.jobs()) > 0)

async def main():
    async with stoker.connect_async(sys.argv[1]) as cluster:
        print(len(await cluster.jobs()) > 0)

asyncio.run(main())
"""
    master = Master()
    async with master.serving() as url:
        status, out, err = await python(code, url, folder=tmp_path)
    assert (status, err) == (0, "")
    *ids, listed, listed_again = out.split()
    graphs = [master.dispatcher.graphs[JobId(each)] for each in ids]
    assert graphs[0].name == "copy"
    assert isinstance(graphs[1].vertices[0], SqlScript)
    assert isinstance(graphs[2].vertices[0], Program)
    assert (listed, listed_again) == ("True", "True")


async def test_the_command_line_lists_and_submits(tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(YAML)
    async with Master().serving() as url:
        status, out, err = await python(COMMAND_LINE, "list", "-m", url, folder=tmp_path)
        assert (status, "RUNNING" in out, err) == (0, True, "")
        submit = ("run", "job.yml", "--detached", "-m", url)
        status, out, err = await python(COMMAND_LINE, *submit, folder=tmp_path)
        assert (status, len(out.strip())) == (0, 32), err


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["run", "job.yml"], "a cluster on this machine needs fsspec"),
        (["cluster", "up"], "a cluster on this machine needs fsspec"),
        (["master"], "which is not installed"),
        (["task-executor"], "which is not installed"),
        (["info", "function.py"], "a Python function needs pyspark"),
        (["info", "imports.py"], "No module named 'pyspark'"),
    ],
)
async def test_an_error_names_the_remedy(command: list[str], reason: str, tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(YAML)
    (tmp_path / "function.py").write_text(WITH_FUNCTION)
    (tmp_path / "imports.py").write_text("import stoker\nimport pyspark.sql\n")
    status, _, err = await python(COMMAND_LINE, *command, folder=tmp_path)
    assert status == 1
    assert reason in err
    assert REMEDY in err
    assert "Traceback" not in err
