"""Jobs that cannot be loaded, on the disk of a real master, while twenty others recover."""

import shutil
from collections.abc import Callable
from pathlib import Path

from builders import build_graph
from integration.processes.separate_processes import (
    PATIENCE,
    WITHOUT_SPARK,
    process_of,
    url_of,
)
from stoker.client.blocking import BlockingClient
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids, JobId
from stoker.core.states import JobStatus

SETTINGS = {"taskmanager.numberOfTaskSlots": "10"}
IDS = Ids()


def graph(name: str) -> JobGraph:
    return build_graph(job_id=IDS.job(), name=name, configuration={"fake.seconds": "0.1"})


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_huge(path: Path) -> None:
    path.write_bytes(b"[" * (64 * 1024 * 1024))


POISONS: dict[str, Callable[[Path], object]] = {
    "corrupt": lambda path: path.write_bytes(b"\x00 not a graph"),
    "empty": lambda path: path.write_bytes(b""),
    "gone": Path.unlink,
    "huge": make_huge,
    "unreadable": replace_by_directory,
}


def graph_file(folder: Path, job_id: JobId) -> Path:
    (path,) = (folder / "storage" / "jobs" / job_id / "graph").iterdir()
    return path


def test_twenty_jobs_finish_beside_jobs_that_cannot_be_loaded(tmp_path: Path) -> None:
    """A job whose bytes are restored leaves the quarantine and runs (RUN-12)."""
    with process_of(tmp_path, "master", "master") as first:
        with BlockingClient(url_of(tmp_path, "master", first)) as client:
            bad = {name: client.submit(graph(name)).job_id for name in POISONS}
            good = [client.submit(graph("good")).job_id for _ in range(20)]
        first.kill()
        first.wait(PATIENCE)
    healthy = tmp_path / "healthy"
    shutil.copy(graph_file(tmp_path, bad["corrupt"]), healthy)
    where = graph_file(tmp_path, bad["corrupt"])
    for name, spoil in POISONS.items():
        spoil(graph_file(tmp_path, bad[name]))

    with (
        process_of(tmp_path, "master", "master") as second,
        process_of(tmp_path, "task-executor", "light", settings=SETTINGS, program=WITHOUT_SPARK),
        BlockingClient(url_of(tmp_path, "master", second)) as client,
    ):
        for each in good:
            assert client.wait(each) is JobStatus.FINISHED
        shown = {each.job_id: each.reason for each in client.quarantined()}
        assert set(shown) == set(bad.values())
        assert all(shown.values()), "every quarantined job has a reason"
        shutil.copy(healthy, where)
        client.retry_quarantined(bad["corrupt"])
        assert client.wait(bad["corrupt"]) is JobStatus.FINISHED
        client.drop_quarantined(bad["huge"])
        left = {each.job_id for each in client.quarantined()}
        assert left == set(bad.values()) - {bad["corrupt"], bad["huge"]}
