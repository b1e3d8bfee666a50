"""The engine on a real Spark cluster: tasks run in executors that are processes of their own."""

# Functions that are sent to a runner contain their own imports.
# ruff: noqa: PLC0415

import json
import zipfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from builders import build_graph, eventually
from integration.engine.bench import OPTIONS, TEN_ROWS, TO_NOWHERE, UNINTERRUPTIBLE, Bench, function
from integration.engine.processes import PATIENCE, cancel_within_ten_seconds, is_writing
from integration.engine.standalone import spark_cluster
from stoker.core.graph import Artifact, ArtifactKind, Program, Source
from stoker.core.options import ByteSize
from stoker.core.states import ExecutionState
from stoker.engine.classic.engine import ClassicEngine
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.options import EngineOptions

# Several JVMs start here, which takes long on a busy machine.
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(400)]


PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

def look(number):
    import leaves
    return leaves.COLOUR, leaves.__file__

context = SparkSession.builder.getOrCreate().sparkContext
with open(sys.argv[1], "w") as answer:
    json.dump(context.parallelize(range(8), 8).map(look).collect(), answer)
"""


def artifact(name: str, kind: ArtifactKind) -> Artifact:
    return Artifact(name=name, kind=kind, sha256="0" * 64, size=1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def master(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with spark_cluster(tmp_path_factory.mktemp("spark"), workers=2) as master:
        yield master


def options_for(master: str) -> EngineOptions:
    properties = {"spark.executor.memory": "500m", "spark.executor.cores": "1"}
    heap = ByteSize(600 * 1024**2)
    return replace(OPTIONS, master=master, heap=heap, warm_runners=1, spark_properties=properties)


def write_wheel(directory: Path) -> Path:
    wheel = directory / "leaves-1.0-py3-none-any.whl"
    about = "leaves-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("leaves/__init__.py", "COLOUR = 'green'\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: leaves\nVersion: 1.0\n")
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return wheel


async def test_a_jobs_files_and_wheels_reach_the_executors_of_a_cluster(
    master: str, tmp_path: Path
) -> None:
    module = tmp_path / "trees.py"
    module.write_text("NAME = 'oak'\n")
    wheel = write_wheel(tmp_path)
    answer = tmp_path / "answer.json"

    def numbers(spark):
        import json

        from pyspark.sql.functions import udf

        @udf("string")
        def where(value):
            import json
            import os

            import leaves
            import trees

            # The executor's own directory is below that of its Spark worker.
            return json.dumps([trees.NAME, leaves.COLOUR, os.getcwd()])

        rows = spark.range(8, numPartitions=8).select(where("id").alias("it")).collect()
        answer.write_text(json.dumps([json.loads(row.it) for row in rows]))
        return spark.range(1)

    graph = build_graph(
        Source(name="numbers", read=function(numbers, "spark")),
        TO_NOWHERE,
        artifacts=(
            artifact("trees.py", ArtifactKind.PYTHON),
            artifact("leaves-1.0-py3-none-any.whl", ArtifactKind.WHEEL),
        ),
    )
    options = options_for(master)
    async with ConnectEngine.open(options, tmp_path / "engine", tmp_path / "logs") as engine:
        assert engine.description["spark-master"] == master
        outcome = await Bench(engine, tmp_path).run(
            graph, artifacts={"trees.py": module, "leaves-1.0-py3-none-any.whl": wheel}
        )
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    assert outcome.progress.spark_ui is not None
    answers = json.loads(answer.read_text())
    assert {tuple(each[:2]) for each in answers} == {("oak", "green")}
    assert all(is_of_an_executor(each[2]) for each in answers)


async def test_requirements_of_a_program_reach_the_executors_of_a_cluster(
    master: str, tmp_path: Path
) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"{write_wheel(tmp_path)}\n")
    script, answer = tmp_path / "job.py", tmp_path / "answer.json"
    script.write_text(PROGRAM)
    program = Program(
        name="program",
        script="job.py",
        requirements="requirements.txt",
        arguments=(str(answer),),
        directory=str(tmp_path),
    )
    graph = build_graph(
        program,
        artifacts=(
            artifact("job.py", ArtifactKind.FILE),
            artifact("requirements.txt", ArtifactKind.FILE),
        ),
    )
    classic = ClassicOptions(warm_drivers=1, warm_at_start=False)
    options = options_for(master)
    async with ClassicEngine.open(
        options, classic, tmp_path / "engine", tmp_path / "logs"
    ) as engine:
        bench = Bench(engine, tmp_path)  # type: ignore[arg-type]
        outcome = await bench.run(
            graph, artifacts={"job.py": script, "requirements.txt": requirements}
        )
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    found = json.loads(answer.read_text())
    assert {each[0] for each in found} == {"green"}
    # Executors import a copy in their own directory, not the driver's installation.
    assert all(is_of_an_executor(each[1]) for each in found), found


def is_of_an_executor(path: str) -> bool:
    """Whether a path is in an executor's directory, below its Spark worker: `work/app-…/0`."""
    return any(part.startswith("app-") for part in Path(path).parts)


async def test_executors_with_uninterruptible_tasks_are_killed_and_the_server_survives(
    master: str, tmp_path: Path
) -> None:
    options = options_for(master)
    async with ConnectEngine.open(options, tmp_path / "engine", tmp_path / "logs") as engine:
        bench = Bench(engine, tmp_path)
        uninterruptible = await bench.launch(build_graph(UNINTERRUPTIBLE, TO_NOWHERE))
        await eventually(lambda: is_writing(uninterruptible.running.server.ui), seconds=PATIENCE)
        await cancel_within_ten_seconds(uninterruptible)
        assert not uninterruptible.running.server.died.done()
        outcome = await bench.run(build_graph(TEN_ROWS, TO_NOWHERE))
    assert outcome.failure is None, "new executors replaced those that were killed"
