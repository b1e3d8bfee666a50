"""Duration of a savepoint, and how much it slows the running query down, by size of state.

`BENCH_STATE=1,100,1000` sets the sizes in MB; the default is the two small ones.
"""

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow
import pyarrow.parquet

from bench.cluster import running_cluster
from bench.measure import Sample, Verdict, milliseconds
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids, JobId
from stoker.core.results import JobDetails

DEFAULT_SIZES = "1,100"
PAYLOAD_BYTES = 1000
ROWS_PER_FILE = 50_000
"""The state is built batch by batch, because one batch with all of it does not fit in the heap."""
FIRST_FILE = 1_000_000
CONFIGURATION = "{rest.bind-port: '0', taskmanager.memory.spark-heap: 2 gb}"
ROUNDS = 5
QUIET_SECONDS = 20.0
TIMEOUT_SECONDS = 1800.0


def run() -> list[Verdict]:
    sizes = [int(text) for text in os.environ.get("BENCH_STATE", DEFAULT_SIZES).split(",")]
    verdicts: list[Verdict] = []
    with running_cluster(CONFIGURATION) as cluster:
        client = BlockingClient(cluster.masters)
        for megabytes in sizes:
            with tempfile.TemporaryDirectory(prefix="stoker-bench-state-") as folder:
                verdicts += _measure(client, Path(folder), megabytes)
    return verdicts


def _measure(client: BlockingClient, root: Path, megabytes: int) -> list[Verdict]:
    (root / "in").mkdir()
    rows = megabytes * 1_000_000 // PAYLOAD_BYTES
    for number, first in enumerate(range(0, rows, ROWS_PER_FILE)):
        _write(root, FIRST_FILE + number, min(ROWS_PER_FILE, rows - first))
    job_id = _submit(client, root)
    _wait_until(lambda: _state_rows(_without_failures(client.job(job_id))) >= rows)
    quiet = _batches(client, job_id, root, during=lambda: time.sleep(QUIET_SECONDS / ROUNDS))
    durations: list[float] = []

    def take() -> None:
        durations.append(milliseconds(lambda: client.savepoint(job_id, str(root / "saved"))))

    busy = _batches(client, job_id, root, during=take)
    stopped = milliseconds(lambda: client.stop(job_id, str(root / "saved")))
    client.wait(job_id)
    for sample in (
        Sample(f"{megabytes} MB: savepoint", tuple(durations)),
        Sample(f"{megabytes} MB: batches without a savepoint", quiet),
        Sample(f"{megabytes} MB: batches during a savepoint", busy),
        Sample(f"{megabytes} MB: stop with savepoint", (stopped,)),
    ):
        print(f"  {sample}")
    slower = Sample("", busy).median / max(1.0, Sample("", quiet).median)
    return [
        Verdict(f"{megabytes} MB: batches during a savepoint, ratio of durations", slower, 2, "x")
    ]


def _write(root: Path, number: int, rows: int) -> None:
    first = number * 10_000_000
    table = pyarrow.table(
        {
            "id": pyarrow.array(range(first, first + rows), pyarrow.int64()),
            "payload": [os.urandom(PAYLOAD_BYTES // 2).hex() for _ in range(rows)],
        }
    )
    unfinished = root / f".{number}.parquet"
    pyarrow.parquet.write_table(table, unfinished)
    unfinished.rename(root / "in" / f"{number}.parquet")


def _submit(client: BlockingClient, root: Path) -> JobId:
    pipeline = Pipeline("state")
    pipeline.source(
        "raw",
        format="parquet",
        path=str(root / "in"),
        schema="id LONG, payload STRING",
        streaming=True,
        options={"maxFilesPerTrigger": "1"},
    )
    pipeline.transform("kept", sql="SELECT id, first(payload) AS payload FROM raw GROUP BY id")
    pipeline.sink("kept", name="out", format="noop", mode="update", trigger="500 milliseconds")
    return client.submit(pipeline.build(job_id=Ids().job()), {}).job_id


def _batches(
    client: BlockingClient, job_id: JobId, root: Path, *, during: Callable[[], None]
) -> tuple[float, ...]:
    """Durations of the batches that ran while `during` was called, once for each round."""
    before = _last_batch(client.job(job_id))
    for number in range(1, ROUNDS + 1):
        _write(root, time.time_ns() // 1_000_000 % 900_000 + 1, 10)
        during()
        # A small savepoint takes less time than a batch; each round must include a batch.
        _wait_until(partial(_is_beyond, client, job_id, before + number - 1))
    entries = client.job(job_id).checkpoints.history
    figures = [entry.figures for entry in entries if entry.figures is not None]
    return tuple(float(each.duration_ms) for each in figures if each.batch_id > before)


def _is_beyond(client: BlockingClient, job_id: JobId, batch: int) -> bool:
    return _last_batch(client.job(job_id)) > batch


def _without_failures(details: JobDetails) -> JobDetails:
    """Raise if the job has failed, rather than wait until the timeout."""
    if details.failures:
        raise RuntimeError(f"the job has failed: {details.failures[0].failure.message}")
    return details


def _state_rows(details: JobDetails) -> int:
    latest = details.checkpoints.latest_completed
    return latest.figures.state_rows if latest is not None and latest.figures is not None else 0


def _last_batch(details: JobDetails) -> int:
    latest = details.checkpoints.latest_completed
    return latest.figures.batch_id if latest is not None and latest.figures is not None else -1


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("timed out while the state was built or the next batch was awaited")
        time.sleep(0.5)
