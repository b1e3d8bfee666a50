"""Clusters to measure: real processes in a temporary directory that is removed afterwards."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.processes.local.cluster import LocalCluster

CONFIGURATION = "{rest.bind-port: '0'}"


@contextmanager
def cluster_without_spark() -> Iterator[str]:
    """A cluster of one master and no task executor; yields the URL of the master."""
    with _cluster(task_executors=0) as cluster:
        yield cluster.masters


@contextmanager
def whole_cluster(configuration: str = CONFIGURATION) -> Iterator[LocalCluster]:
    with _cluster(task_executors=1, configuration=configuration) as cluster:
        yield cluster


@contextmanager
def _cluster(*, task_executors: int, configuration: str = CONFIGURATION) -> Iterator[LocalCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder,
        LocalCluster(Path(folder), tied=True) as cluster,
    ):
        cluster.start(task_executors=task_executors, configuration=configuration)
        cluster.wait_until_ready()
        yield cluster
