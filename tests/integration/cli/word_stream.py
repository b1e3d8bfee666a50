"""A streaming job with two sinks, one of them stateful: its input and its expected output."""

import json
from pathlib import Path

import pyarrow.dataset

from file_sink import committed_files


class Stream:
    """Input, output and savepoints of one streaming job."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written: list[int] = []
        (root / "in").mkdir(parents=True)

    def write(self, count: int) -> None:
        """Write an input file with `count` new rows."""
        first = len(self.written)
        rows = range(first, first + count)
        text = "".join(json.dumps({"word": f"w{n % 5}", "n": n}) + "\n" for n in rows)
        unfinished = self.root / f".{first}.json"
        unfinished.write_text(text)
        unfinished.rename(self.root / "in" / f"{first}.json")
        self.written += rows

    def lines(self) -> list[int]:
        """The numbers that a reader of the sink sees."""
        files = committed_files(self.root / "lines")
        if not files:
            return []
        table = pyarrow.dataset.dataset(sorted(map(str, files)), format="parquet").to_table()
        return sorted(table.column("n").to_pylist())

    def counts(self) -> dict[str, int]:
        latest: dict[str, int] = {}
        batches = sorted((self.root / "counts").glob("*.json"), key=lambda path: int(path.stem))
        for batch in batches:
            latest |= json.loads(batch.read_text())
        return latest

    def expected_counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for n in self.written:
            counts[f"w{n % 5}"] = counts.get(f"w{n % 5}", 0) + 1
        return counts

    @property
    def is_caught_up(self) -> bool:
        return self.lines() == self.written and self.counts() == self.expected_counts()


PIPELINE = """
import json
import os

from stoker import Pipeline

words = Pipeline("words", parameters={{"root": "{root}"}})

@words.source(streaming=True)
def raw(spark, params):
    reader = spark.readStream.schema("word STRING, n LONG").option("maxFilesPerTrigger", 1)
    return reader.json(params["root"] + "/in")

@words.transform
def counted(raw):
    return raw.groupBy("word").count()

words.sink("raw", name="lines", format="parquet", path="{root}/lines", trigger="200 milliseconds")

@words.sink("counted", name="counts", mode="update", trigger="200 milliseconds")
def counts(df, batch_id):
    os.makedirs("{root}/counts", exist_ok=True)
    rows = {{row["word"]: row["count"] for row in df.collect()}}
    with open(f"{root}/counts/.{{batch_id}}", "w") as file:
        file.write(json.dumps(rows))
    os.rename(f"{root}/counts/.{{batch_id}}", f"{root}/counts/{{batch_id}}.json")
"""
