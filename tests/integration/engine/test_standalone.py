"""The engine on a real Spark cluster: tasks run in executors that are processes of their own."""

# Functions that travel to a runner bring their own imports.
# ruff: noqa: PLC0415

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from integration.engine.bench import OPTIONS, TO_NOWHERE, Bench, function, job
from integration.engine.standalone import spark_cluster
from stoker.core.graph import Artifact, ArtifactKind, Source
from stoker.core.options import ByteSize
from stoker.core.states import ExecutionState
from stoker.engine.connect_engine import ConnectEngine

# Several JVMs start here, which takes long on a busy machine.
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(400)]


def artifact(name: str, kind: ArtifactKind) -> Artifact:
    return Artifact(name=name, kind=kind, sha256="0" * 64, size=1)


async def test_a_jobs_files_and_wheels_reach_the_executors_of_a_cluster(tmp_path: Path) -> None:
    module = tmp_path / "trees.py"
    module.write_text("NAME = 'oak'\n")
    wheel = tmp_path / "leaves-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("leaves/__init__.py", "COLOUR = 'green'\n")
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

    graph = job(
        Source(name="numbers", read=function(numbers, "spark")),
        TO_NOWHERE,
        artifacts=(
            artifact("trees.py", ArtifactKind.PYTHON),
            artifact("leaves-1.0-py3-none-any.whl", ArtifactKind.WHEEL),
        ),
    )
    async with spark_cluster(tmp_path, workers=2) as master:
        options = replace(
            OPTIONS,
            master=master,
            heap=ByteSize(600 * 1024**2),
            warm_runners=1,
            spark_properties={"spark.executor.memory": "500m", "spark.executor.cores": "1"},
        )
        async with ConnectEngine.open(options, tmp_path / "engine", tmp_path / "logs") as engine:
            assert engine.description["spark-master"] == master
            outcome = await Bench(engine, tmp_path).run(
                graph, artifacts={"trees.py": module, "leaves-1.0-py3-none-any.whl": wheel}
            )
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    assert outcome.progress.spark_ui is not None
    answers = json.loads(answer.read_text())
    assert {tuple(each[:2]) for each in answers} == {("oak", "green")}
    assert all(each[2].startswith(str(tmp_path / "work")) for each in answers)
