"""Flink's real command line and dashboard against a real cluster.

FLINK_JARS names a folder with Flink's jars: lib/ of its distribution, or pyflink/lib of the
package apache-flink-libraries. The dashboard is opened in Chromium, through Playwright.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, sync_playwright

from builders import wait_until
from integration.browser import CHROMIUM, needs_browser
from integration.cli.conftest import CommandLine, running_cluster
from integration.cli.flink_tools import FlinkCommand, dashboard
from stoker.processes.local.cluster_state import urls_of

LIB = Path(os.environ.get("FLINK_JARS") or "no/such/jars")
pytestmark = [
    pytest.mark.skipif(not LIB.is_dir(), reason="needs Flink's jars: FLINK_JARS=…/lib"),
    pytest.mark.timeout(900),
]

STREAM = """
from stoker import Pipeline

stream = Pipeline("flinks-stream", configuration={"spark.sql.shuffle.partitions": 2})

@stream.source
def ticks(spark):
    return spark.readStream.format("rate").option("rowsPerSecond", 5).load()

@stream.transform
def counted(ticks):
    return ticks.groupBy((ticks["value"] % 3).alias("k")).count()

stream.sink("counted", name="out", format="noop", mode="complete", trigger="1 second")
"""
UNKNOWN_JOB = "f" * 32


@pytest.fixture(scope="module")
def stoker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """A cluster of its own, because Flink's tools know no tokens."""
    yield from running_cluster(tmp_path_factory.mktemp("open-home"), "--no-token")


@pytest.fixture
def url(stoker: CommandLine) -> str:
    (url,) = urls_of(stoker.directory, stoker.state)
    return url


@pytest.fixture
def flink(url: str, tmp_path: Path) -> FlinkCommand:
    return FlinkCommand(LIB, tmp_path, url.removeprefix("http://"))


@pytest.fixture
def job(stoker: CommandLine, url: str, tmp_path: Path) -> Iterator[str]:
    """A streaming job with a completed checkpoint; cancelled afterwards if it still runs."""
    (tmp_path / "stream.py").write_text(STREAM)
    job_id = stoker.submit(tmp_path / "stream.py")
    checkpoints = f"{url}/jobs/{job_id}/checkpoints"
    wait_until(
        lambda: httpx.get(checkpoints).json()["counts"]["completed"] > 0,
        "there is a checkpoint",
        40,
    )
    yield job_id
    httpx.patch(f"{url}/jobs/{job_id}")


def test_a_job_is_listed_saved_and_stopped(flink: FlinkCommand, job: str, tmp_path: Path) -> None:
    assert f"{job} : flinks-stream (RUNNING)" in flink("list").stdout
    saved = flink("savepoint", job, str(tmp_path / "saved")).stdout
    (path,) = re.findall(r"Savepoint completed\. Path: (\S+)", saved)
    assert Path(path).is_dir()
    assert "Successfully trigger manual savepoint" in flink("savepoint", "-detached", job).stdout
    assert re.search(rf"Checkpoint \d+ for job {job} completed", flink("checkpoint", job).stdout)
    assert "disposed" in flink("savepoint", "-dispose", path).stdout
    assert not Path(path).exists()
    stopped = flink("stop", "-p", str(tmp_path / "saved"), job).stdout
    assert "Savepoint completed. Path:" in stopped
    assert f"{job} : flinks-stream (FINISHED)" in flink("list", "-a").stdout


def test_a_job_is_cancelled_with_a_savepoint(flink: FlinkCommand, job: str, tmp_path: Path) -> None:
    done = flink("cancel", "-s", str(tmp_path / "saved"), job).stdout
    assert f"Cancelled job {job}. Savepoint stored in" in done
    assert f"{job} : flinks-stream (CANCELED)" in flink("list", "-a").stdout


def test_an_impossible_request_is_refused_with_the_clusters_message(
    flink: FlinkCommand, job: str
) -> None:
    unknown = flink("cancel", UNKNOWN_JOB, expect=1)
    assert f"no job with id {UNKNOWN_JOB}" in unknown.stdout + unknown.stderr
    nowhere = flink("savepoint", "-dispose", "/nowhere/at/all", expect=1)
    assert "/nowhere/at/all cannot be used" in nowhere.stdout + nowhere.stderr
    drained = flink("stop", "--drain", job, expect=1)
    assert "drain is not possible" in drained.stdout + drained.stderr
    assert f"Cancelled job {job}." in flink("cancel", job).stdout


@needs_browser
def test_the_dashboard_shows_a_job_and_cancels_it(url: str, job: str, tmp_path: Path) -> None:
    (executor,) = httpx.get(f"{url}/taskmanagers").json()["taskmanagers"]
    vertex = httpx.get(f"{url}/jobs/{job}").json()["vertices"][-1]["id"]
    job_pages = ("timeline", "exceptions", "checkpoints", "configuration", "dataskew")
    vertex_pages = ("detail", "subtasks", "taskmanagers", "watermarks", "metrics", "accumulators")
    process_pages = ("metrics", "logs", "stdout", "thread-dump")
    pages = [
        *("overview", "submit", "job/running", "job/completed", "task-manager"),
        *("application/running", "application/completed"),
        *(f"job-manager/{each}" for each in ("config", *process_pages)),
        *(f"task-manager/{executor['id']}/{each}" for each in process_pages),
        *(f"job/running/{job}/{each}" for each in job_pages),
        *(f"job/running/{job}/overview/{vertex}/{each}" for each in vertex_pages),
    ]
    faults: list[str] = []
    with dashboard(LIB, tmp_path, url) as front, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page: Page = browser.new_page()
        page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
        page.on("response", lambda each: faults.append(each.url) if each.status >= 400 else None)
        for each in pages:
            page.goto(f"{front}/#/{each}")
            page.reload(wait_until="networkidle")
        assert faults == []
        page.goto(f"{front}/#/job/running/{job}/overview")
        page.reload()
        page.get_by_text("Parallelism: 1").first.wait_for(timeout=60_000)
        assert page.locator("flink-node, .node").count() == 3
        page.get_by_text("Cancel Job").click()
        confirmed = page.get_by_role("button").filter(has_text=re.compile("OK|Yes|Cancel Job"))
        confirmed.first.click()
        wait_until(
            lambda: httpx.get(f"{url}/jobs/{job}").json()["state"] == "CANCELED",
            "the job is cancelled",
            40,
        )
        browser.close()
    assert faults == []
