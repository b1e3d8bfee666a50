"""A driver that runs a region, without Spark."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from builders import build_graph
from stoker.core.ids import AttemptId
from stoker.core.regions import regions_of
from stoker.core.results import Failure, Progress
from stoker.engine.classic.driver import main as driver
from stoker.engine.failures import failure_of
from stoker.engine.limits import RunnerLimits
from stoker.engine.protocol import Ended, RunTask
from stoker.engine.python_workers import workers_out_of_memory

RUN = RunTask(
    graph=build_graph(),
    region=regions_of(build_graph())[-1],
    attempt=AttemptId("1"),
    directory="",
    materialized_root="",
    checkpoint_root="",
    artifacts={},
    limits=RunnerLimits(memory=2**30, processes=1, open_files=64),
)


class PublishedRegion:
    """A region whose sink has published seven rows."""

    progress = Progress(rows_written=7, bytes_written=70)

    def __init__(self, *_arguments: object) -> None: ...

    def run(self) -> None: ...


class GreedyRegion(PublishedRegion):
    """A region whose function asks the kernel for more than it may have."""

    error: BaseException

    def run(self) -> None:
        raise self.error

    def failure_of(self, error: BaseException) -> Failure:
        return failure_of(error)

    def at_functions(self, failure: Failure) -> Failure:
        return msgspec.structs.replace(failure, place="transform 'greedy'")


class WorkersInMemory:
    """Python workers that were killed before the region failed, or none."""

    failure: Failure | None = None

    def __init__(self, *_arguments: object) -> None: ...

    def start(self) -> None: ...


class Harness:
    """A driver without Spark, which records its messages and limits."""

    def __init__(self, region: type[PublishedRegion], patch: pytest.MonkeyPatch, root: Path):
        self.limits: list[RunnerLimits | None] = []
        """The limits as they were set; None where the limit on memory was lifted."""
        patch.chdir(root)
        patch.setattr(driver, "RegionExecution", region)
        patch.setattr(driver, "apply_limits", self.limits.append)
        patch.setattr(driver, "WorkerMemoryWatch", WorkersInMemory)
        patch.setattr(driver, "release_memory_limit", lambda: self.limits.append(None))
        patch.setattr(driver.Driver, "_start_progress_reports", lambda _driver: None)
        self.sent: list[Any] = []
        settings = SimpleNamespace(set=lambda _key, _value: None, isModifiable=lambda _key: True)
        spark = SimpleNamespace(claim=lambda: SimpleNamespace(conf=settings))
        end = SimpleNamespace(send=self.sent.append)
        task = msgspec.structs.replace(RUN, directory=str(root))
        self.driver = driver.Driver(cast(Any, end), cast(Any, spark), task)


def test_a_region_reports_the_rows_that_it_has_published(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    harness = Harness(PublishedRegion, monkeypatch, tmp_path)
    harness.driver._send_progress(Progress(tasks_total=4, tasks_done=4))
    assert harness.driver._run_region() == 0
    assert isinstance(harness.sent[-1], Ended)
    assert harness.sent[-1].progress == Progress(
        tasks_total=4, tasks_done=4, rows_written=7, bytes_written=70
    )


@pytest.mark.parametrize(
    ("error", "name", "option"),
    [
        (MemoryError(), "OutOfMemory", "runner.memory"),
        (OSError(errno.EMFILE, "Too many open files"), "TooManyOpenFiles", "runner.open-files"),
    ],
)
def test_a_region_that_exceeds_a_limit_of_its_task_fails_with_the_name_of_the_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException, name: str, option: str
) -> None:
    monkeypatch.setattr(GreedyRegion, "error", error, raising=False)
    harness = Harness(GreedyRegion, monkeypatch, tmp_path)
    assert harness.driver._run_region() == 1
    assert harness.limits == [RUN.limits, None], "the failure is reported without the limit"
    failure = harness.sent[-1].failure
    assert failure.error == name
    assert option in failure.message


def test_a_region_whose_workers_were_killed_fails_for_that_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark only reports that a worker has crashed."""
    crashed = RuntimeError("Python worker exited unexpectedly (crashed)")
    monkeypatch.setattr(GreedyRegion, "error", crashed, raising=False)
    monkeypatch.setattr(WorkersInMemory, "failure", workers_out_of_memory(2**30, 2**31, 2))
    harness = Harness(GreedyRegion, monkeypatch, tmp_path)
    assert harness.driver._run_region() == 1
    failure = harness.sent[-1].failure
    assert (failure.error, failure.place) == ("OutOfMemory", "transform 'greedy'")
    assert "may take 1024 MB" in failure.message
