"""Clusters to measure: real processes in a temporary directory that is removed afterwards."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.processes.local.cluster import LocalCluster

CONFIGURATION = "{rest.bind-port: '0'}"
_REST_SECONDS = 5.0
"""A starting process uses all cores for a while, which would distort the next measurement."""


@contextmanager
def running_cluster(
    configuration: str = CONFIGURATION,
    *,
    masters: int = 1,
    task_executors: int = 1,
    zookeeper: int = 0,
) -> Iterator[LocalCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder,
        LocalCluster(Path(folder), tied=True) as cluster,
    ):
        cluster.start(
            masters=masters,
            task_executors=task_executors,
            zookeeper=zookeeper,
            configuration=configuration,
        )
        cluster.wait_until_ready()
        yield cluster


def restart_former_leader(cluster: LocalCluster) -> None:
    """Wait until the process that got a signal has ended, start it again, and let it settle."""
    while (state := cluster.state) is not None and not state.dead:
        time.sleep(0.05)
    cluster.start_missing()
    cluster.wait_until_ready()
    time.sleep(_REST_SECONDS)
