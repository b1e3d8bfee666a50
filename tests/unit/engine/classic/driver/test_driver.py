"""A driver that runs a region, without Spark."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from builders import build_graph
from stoker.core.ids import AttemptId
from stoker.core.regions import regions_of
from stoker.core.results import Progress
from stoker.engine.classic.driver import main as driver
from stoker.engine.protocol import Ended, RunTask


class PublishedRegion:
    """A region whose sink has published seven rows."""

    progress = Progress(rows_written=7, bytes_written=70)

    def __init__(self, *_arguments: object) -> None: ...

    def run(self) -> None: ...


def test_a_region_reports_the_rows_that_it_has_published(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driver, "RegionExecution", PublishedRegion)
    monkeypatch.setattr(driver.Driver, "_start_progress_reports", lambda _driver: None)
    graph = build_graph()
    task = RunTask(
        graph=graph,
        region=regions_of(graph)[-1],
        attempt=AttemptId("1"),
        directory=str(tmp_path),
        materialized_root="",
        checkpoint_root="",
        artifacts={},
    )
    settings = SimpleNamespace(set=lambda _key, _value: None, isModifiable=lambda _key: True)
    spark = SimpleNamespace(claim=lambda: SimpleNamespace(conf=settings))
    sent: list[Any] = []
    end = SimpleNamespace(send=sent.append)
    running = driver.Driver(cast(Any, end), cast(Any, spark), task)
    running._send_progress(Progress(tasks_total=4, tasks_done=4))
    assert running._run_region() == 0
    assert isinstance(sent[-1], Ended)
    assert sent[-1].progress == Progress(
        tasks_total=4, tasks_done=4, rows_written=7, bytes_written=70
    )
