"""A streaming job that removes duplicate numbers and writes to an exactly-once sink.

No Python function runs in Spark: a busy machine may start Python workers too late.
"""

from collections.abc import Mapping
from pathlib import Path

import pyarrow.dataset

from file_sink import committed_files

PIPELINE = """
from stoker import Pipeline

distinct = Pipeline(
    "{name}",
    parameters={{"root": "{root}"}},
    configuration={configuration},
)

@distinct.source(streaming=True)
def raw(spark, params):
    reader = spark.readStream.schema("n LONG").option("maxFilesPerTrigger", 1)
    return reader.json(params["root"] + "/in")

@distinct.transform
def once(raw):
    {check}
    return raw.dropDuplicates(["n"]).selectExpr("{number} AS n")

distinct.sink("once", name="out", format="parquet", path="{root}/out", trigger="200 milliseconds")
"""


class DistinctStream:
    """Input and output of the job, and versions of its source file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written = 0
        (root / "in").mkdir(parents=True)

    def write(self, count: int) -> None:
        """Write an input file with `count` new numbers and all previous ones."""
        self.written += count
        unfinished = self.root / f".{self.written}.json"
        unfinished.write_text("".join(f'{{"n": {n}}}\n' for n in range(self.written)))
        unfinished.rename(self.root / "in" / f"{self.written}.json")

    def version(
        self,
        name: str,
        *,
        check: str = "pass",
        number: str = "n",
        configuration: Mapping[str, str] | None = None,
    ) -> Path:
        """`number` is an SQL expression, which may fail for some of the data."""
        path = self.root / f"{name}.py"
        settings = {"spark.sql.shuffle.partitions": "2", **(configuration or {})}
        path.write_text(
            PIPELINE.format(
                root=self.root, name=name, check=check, number=number, configuration=settings
            )
        )
        return path

    def output(self) -> list[int]:
        """The numbers that a reader of the sink sees."""
        files = committed_files(self.root / "out")
        if not files:
            return []
        table = pyarrow.dataset.dataset(sorted(map(str, files)), format="parquet").to_table()
        return sorted(table.column("n").to_pylist())

    @property
    def is_caught_up(self) -> bool:
        return self.output() == list(range(self.written))
