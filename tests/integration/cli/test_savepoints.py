"""Savepoints of a real streaming job, from trigger to the job that goes on. CKPT-12, CKPT-15."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset
import pytest

from integration.cli.conftest import CommandLine, Eventually

pytestmark = pytest.mark.skipif(
    os.environ.get("STOKER_SAVEPOINTS") != "long",
    reason="minutes on a busy machine: STOKER_SAVEPOINTS=long",
)


class Stream:
    """Input, output and savepoints of one streaming job."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written: list[int] = []
        (root / "in").mkdir(parents=True)

    def write(self, count: int) -> None:
        """One file with so many further rows."""
        first = len(self.written)
        rows = range(first, first + count)
        text = "".join(json.dumps({"word": f"w{n % 5}", "n": n}) + "\n" for n in rows)
        unfinished = self.root / f".{first}.json"
        unfinished.write_text(text)
        unfinished.rename(self.root / "in" / f"{first}.json")
        self.written += rows

    def lines(self) -> list[int]:
        """What a reader of the sink sees: the files of its log alone."""
        log = self.root / "lines" / "_spark_metadata"
        files: set[str] = set()
        for batch in log.glob("[0-9]*"):
            entries = [json.loads(line) for line in batch.read_text().splitlines()[1:]]
            files |= {entry["path"].removeprefix("file://") for entry in entries}
        if not files:
            return []
        table = pyarrow.dataset.dataset(sorted(files), format="parquet").to_table()
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


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path / "stream")


@pytest.fixture
def job_file(stream: Stream, tmp_path: Path) -> Path:
    path = tmp_path / "words.py"
    path.write_text(PIPELINE.format(root=stream.root))
    return path


@pytest.fixture
def leftovers(stoker: CommandLine) -> Iterator[list[str]]:
    """Jobs that a test started, ended afterwards."""
    jobs: list[str] = []
    yield jobs
    for job in jobs:
        stoker("cancel", job, expect=None)


def test_a_job_goes_on_from_its_savepoint_and_loses_and_repeats_nothing(
    stoker: CommandLine,
    stream: Stream,
    job_file: Path,
    tmp_path: Path,
    leftovers: list[str],
    eventually: Eventually,
):
    stream.write(7)
    first = stoker.submit(job_file)
    leftovers.append(first)
    eventually(lambda: stream.is_caught_up, 120)
    stream.write(5)
    taken = stoker("savepoint", "trigger", first, tmp_path / "saved").stdout.strip()
    shown = stoker("savepoint", "show", taken, "--verify").stdout
    assert "query lines: batch" in shown
    assert "state of stateStoreSave" in shown
    assert "Every file is as it was saved" in shown
    eventually(lambda: stream.is_caught_up, 60)
    checkpoints = json.loads(stoker("checkpoint", "list", first, "--json").stdout)
    assert checkpoints["latest_savepoint"]["path"] == taken
    assert any(entry["figures"] for entry in checkpoints["history"])
    assert stoker("checkpoint", "verify", taken).returncode == 0

    stream.write(6)
    stopped = stoker("stop", first, "-p", tmp_path / "saved").stdout.strip()
    assert json.loads(stoker("status", first, "--json").stdout)["status"] == "FINISHED"
    listed = json.loads(stoker("savepoint", "list", tmp_path / "saved", "--json").stdout)
    assert [each["path"] for each in listed] == [stopped, taken]

    stream.write(4)
    stoker("savepoint", "dispose", taken)
    assert not Path(taken).exists()
    moved = tmp_path / "moved"
    Path(stopped).rename(moved)
    second = stoker.submit(job_file, "-s", str(moved))
    leftovers.append(second)
    eventually(lambda: stream.is_caught_up, 120)
    refused = stoker("run", "-d", job_file, "-s", taken, expect=None)
    assert refused.returncode != 0
    assert "there is no such directory" in refused.stderr
    stoker("cancel", second)
