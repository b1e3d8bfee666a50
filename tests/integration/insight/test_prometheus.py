"""A real Prometheus reads a running cluster; its rules and the dashboard find what they need.

Debian's package `prometheus` has both programs: `make insight-check`.
"""

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from builders import ODD_NAME, wait_until
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.ids import Ids
from stoker.metrics.catalogue import (
    CATALOGUE,
    COORDINATOR_ERRORS,
    HEARTBEAT_LOSSES,
    HEARTBEATS_MISSED,
    RPC_ERRORS,
    SAVEPOINT_DURATION,
    SAVEPOINT_SIZE,
    SAVEPOINTS,
    STORAGE_ERRORS,
    STREAM_ROWS_WRITTEN,
)
from stoker.metrics.definitions import MetricDefinition, MetricKind
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.token import token_of

PROGRAMS = {name: shutil.which(name) for name in ("prometheus", "promtool")}
OPERATORS = Path(__file__).parents[3] / "operators"
CONFIGURATION = "{rest.bind-port: '0', metrics.port: '0', heartbeat.interval: 2 s}"
ONLY_AFTER_EVENTS = {
    COORDINATOR_ERRORS,
    HEARTBEATS_MISSED,
    HEARTBEAT_LOSSES,
    RPC_ERRORS,
    SAVEPOINTS,
    SAVEPOINT_DURATION,
    SAVEPOINT_SIZE,
    STORAGE_ERRORS,
    # Only sinks that count their rows have it.
    STREAM_ROWS_WRITTEN,
}
STREAM_NAME = f"ticks {ODD_NAME}"
PATIENCE_SECONDS = 120.0

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(None in PROGRAMS.values(), reason="there is no Prometheus"),
]


@dataclass(frozen=True)
class Insight:
    http: httpx.Client
    headers: dict[str, str]
    cluster: LocalCluster
    executor_url: str

    @property
    def exposed(self) -> list[str]:
        """Addresses of the metrics of each process."""
        return [f"{url}/metrics" for url in self.cluster.urls.split(",")] + [self.executor_url]

    def query(self, expression: str) -> list[Any]:
        answer = self.http.get("/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", f"{expression}: {answer}"
        found: list[Any] = answer["data"]["result"]
        return found

    def has(self, expression: str) -> bool:
        return bool(self.query(expression))

    def names(self) -> set[str]:
        """Names of all series that come from Stoker."""
        found = self.query('count by (__name__) ({job=~"stoker.*"})')
        return {each["metric"]["__name__"] for each in found}


def stream() -> Pipeline:
    pipeline = Pipeline(STREAM_NAME)
    pipeline.source("rate", format="rate", streaming=True, rowsPerSecond=20)

    @pipeline.transform
    def counted(rate):  # type: ignore[no-untyped-def]
        return rate.withWatermark("timestamp", "5 seconds").groupBy("timestamp").count()

    pipeline.sink("counted", name="out", format="noop", mode="append", trigger="1 second")
    return pipeline


def batch() -> Pipeline:
    pipeline = Pipeline("batch")

    @pipeline.source
    def numbers(spark):  # type: ignore[no-untyped-def]
        return spark.range(10)

    pipeline.sink("numbers", name="out", format="noop", mode="overwrite")
    return pipeline


@pytest.fixture(scope="module")
def insight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Insight]:
    """A cluster with a stream and an ended batch job, read by Prometheus until it knows both."""
    folder = tmp_path_factory.mktemp("insight")
    ids = Ids()
    with LocalCluster(folder / "cluster", tied=True) as cluster:
        cluster.start(masters=2, configuration=CONFIGURATION, with_token=True)
        cluster.wait_until_ready()
        token = token_of(cluster.directory)
        assert token is not None
        client = BlockingClient(cluster.masters, ClientOptions(token=token))
        client.submit(stream().build(job_id=ids.job()), {})
        with running_prometheus(folder, cluster, token) as url:
            assert client.wait(client.submit(batch().build(job_id=ids.job()), {}).job_id)
            with httpx.Client(base_url=url) as http:
                record = cluster.directory / "work" / "task-executor-1" / "task-executor.json"
                insight = Insight(
                    http=http,
                    headers={"Authorization": f"Bearer {token}"},
                    cluster=cluster,
                    executor_url=json.loads(record.read_text())["metrics_url"],
                )
                wait_until(lambda: missing(insight) == set(), "all series", PATIENCE_SECONDS)
                yield insight


@contextmanager
def running_prometheus(folder: Path, cluster: LocalCluster, token: str) -> Iterator[str]:
    """The configuration of the repository, with the addresses and the token of this cluster."""
    credentials = folder / "token"
    credentials.write_text(token)
    (folder / "prometheus-alerts.yml").write_text((OPERATORS / "prometheus-alerts.yml").read_text())
    settings = yaml.safe_load((OPERATORS / "prometheus.yml").read_text())
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    masters, executors = settings["scrape_configs"]
    urls = cluster.urls.split(",")
    masters["static_configs"][0]["targets"] = [url.removeprefix("http://") for url in urls]
    (discovery,) = executors["http_sd_configs"]
    discovery |= {"url": f"{urls[0]}/metrics/targets", "refresh_interval": "1s"}
    for each in (masters, executors, discovery):
        each["authorization"]["credentials_file"] = str(credentials)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            str(PROGRAMS["prometheus"]),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
        ],
        stderr=(folder / "prometheus.log").open("wb"),
    )
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def series_of(definition: MetricDefinition) -> str:
    is_histogram = definition.kind is MetricKind.HISTOGRAM
    return f"{definition.name}_count" if is_histogram else definition.name


def missing(insight: Insight) -> set[str]:
    """Names of the series that a cluster with a running stream must have and has not."""
    try:
        known = insight.names()
    except httpx.TransportError:
        # Prometheus has not started to listen yet.
        known = set()
    wanted = {series_of(each) for each in CATALOGUE if each not in ONLY_AFTER_EVENTS}
    return wanted - known


def test_every_series_of_a_running_stream_reaches_prometheus(insight: Insight) -> None:
    assert missing(insight) == set()


def test_nothing_reaches_prometheus_that_is_not_in_the_catalogue(insight: Insight) -> None:
    catalogued = {each.name for each in CATALOGUE}
    by_prometheus = re.compile(r"up|scrape_.*|ALERTS.*")
    unknown = {
        name
        for name in insight.names()
        if re.sub(r"_(bucket|count|sum)$", "", name) not in catalogued
        and name not in catalogued
        and not by_prometheus.fullmatch(name)
    }
    assert unknown == set()


def test_promtool_accepts_what_each_process_exposes(insight: Insight) -> None:
    for url in insight.exposed:
        text = httpx.get(url, headers=insight.headers).raise_for_status().content
        checked = subprocess.run(
            [str(PROGRAMS["promtool"]), "check", "metrics"],
            input=text,
            capture_output=True,
            check=False,
        )
        assert (checked.returncode, checked.stderr) == (0, b""), url


def test_no_process_shows_its_metrics_without_a_token(insight: Insight) -> None:
    assert {httpx.get(url).status_code for url in insight.exposed} == {401}


def test_the_name_of_a_job_arrives_as_it_was_given(insight: Insight) -> None:
    (found,) = insight.query("stoker_stream_batches_total")
    assert found["metric"]["job_name"] == STREAM_NAME
    assert float(found["value"][1]) > 0


def test_every_panel_of_the_dashboard_has_data(insight: Insight) -> None:
    dashboard = json.loads((OPERATORS / "grafana-dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            # A rate needs two readings since the first event.
            wait_until(partial(insight.has, target["expr"]), f"data of {panel['title']}")


def test_the_alert_rules_are_valid_and_quiet_while_all_is_well(insight: Insight) -> None:
    for command in (["check", "rules"], ["check", "config", "--syntax-only"]):
        file = "prometheus-alerts.yml" if "rules" in command else "prometheus.yml"
        subprocess.run([str(PROGRAMS["promtool"]), *command, str(OPERATORS / file)], check=True)
    groups = insight.http.get("/api/v1/rules").json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == 13
    assert {rule["health"] for rule in rules} == {"ok"}
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
