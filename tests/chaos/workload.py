"""Jobs whose results show whether they ran exactly once."""

import json
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow.parquet

from file_sink import committed_files
from stoker import Pipeline
from stoker.core.graph import JobGraph, RestartPolicy
from stoker.core.ids import Ids

ROWS = 10
_FILES_PER_SECOND = 4


def batch_job(
    ids: Ids, out: Path, *, seconds: float = 0.0, restarts: int = 0, mode: str = "append"
) -> JobGraph:
    """A job that writes ten rows below `out`; if it ran twice, there would be twenty."""
    restart = RestartPolicy(strategy="fixed-delay", attempts=restarts) if restarts else None
    pipeline = Pipeline("ten-rows", restart=restart)

    @pipeline.source
    def numbers(spark):
        import time  # noqa: PLC0415

        time.sleep(seconds)
        return spark.range(0, ROWS, 1, 1)

    pipeline.sink("numbers", name="out", format="parquet", path=str(out), mode=mode)
    return pipeline.build(job_id=ids.job())


def rows_in(out: Path) -> int:
    files = list(out.glob("*.parquet")) if out.exists() else []
    return sum(pyarrow.parquet.read_metadata(path).num_rows for path in files)


@dataclass(frozen=True)
class Balance:
    """How many records of the input are in the output once, never, and more than once."""

    ok: int
    lost: int
    repeated: int


class FileStream:
    """Writes input files during the block; the stream must copy each record exactly once."""

    def __init__(self, directory: Path) -> None:
        self.source = directory / "in"
        self.sink = directory / "out"
        self._staging = directory / "staging"
        for folder in (self.source, self._staging):
            folder.mkdir(parents=True)
        self._written = 0
        self._stopping = threading.Event()
        self._writer = threading.Thread(target=self._write_until_stopped, name="writer")

    def __enter__(self) -> Self:
        self._writer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop_writing()

    def stop_writing(self) -> None:
        self._stopping.set()
        self._writer.join()

    def job(self, ids: Ids) -> JobGraph:
        pipeline = Pipeline("copy")
        schema = "number LONG"
        pipeline.source(
            "numbers", format="json", path=str(self.source), schema=schema, streaming=True
        )
        pipeline.sink(
            "numbers", name="out", format="parquet", path=str(self.sink), trigger="500 milliseconds"
        )
        return pipeline.build(job_id=ids.job())

    def balance(self) -> Balance:
        counts = Counter(
            number
            for path in committed_files(self.sink)
            for number in pyarrow.parquet.read_table(path)["number"].to_pylist()
        )
        assert set(counts) <= set(range(self._written)), (
            "the output has records that are not in the input"
        )
        return Balance(
            ok=sum(count == 1 for count in counts.values()),
            lost=self._written - len(counts),
            repeated=sum(count > 1 for count in counts.values()),
        )

    @property
    def is_copied(self) -> bool:
        return self.balance().lost == 0

    def _write_until_stopped(self) -> None:
        while not self._stopping.wait(1 / _FILES_PER_SECOND):
            numbers = range(self._written, self._written + ROWS)
            name = f"{numbers.start:08}.json"
            lines = "".join(json.dumps({"number": number}) + "\n" for number in numbers)
            (self._staging / name).write_text(lines)
            # Renamed into place: the stream never sees half a file.
            (self._staging / name).rename(self.source / name)
            self._written = numbers.stop
