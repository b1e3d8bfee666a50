"""A cluster on a small disk: clients cannot take what the records of running jobs need."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import StorageFull
from stoker.core.ids import Ids
from stoker.processes.local.cluster import LocalCluster
from stoker.testing.sample_jobs import artifact, new_graph

MEGABYTE = 1 << 20
SETTINGS = {"rest.bind-port": "0", "blob.storage.min-free": "32 mb"}

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can mount a disk"),
    pytest.mark.timeout(200),
]


@contextmanager
def disk(place: Path, megabytes: int) -> Iterator[None]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("NOT TESTED: nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_beyond_the_reserve_of_a_disk_nothing_new_is_accepted(tmp_path: Path) -> None:
    """What was accepted is answered for, and with free space all goes on."""
    place = tmp_path / "cluster"
    place.mkdir()
    ids = Ids()
    content = os.urandom(4 * MEGABYTE)
    (tmp_path / "wheel").write_bytes(content)
    wheel = artifact(content)
    plain = new_graph(job_id=ids.job())
    with disk(place, 64), LocalCluster(place, tied=True) as cluster:
        cluster.start(task_executors=0, configuration=json.dumps(SETTINGS), with_token=True)
        cluster.wait_until_ready()
        client = BlockingClient(cluster.masters, ClientOptions(token=cluster.token, retries=0))
        client.submit(plain)
        files = {wheel.sha256: tmp_path / "wheel"}
        first = new_graph(job_id=ids.job(), artifacts=(wheel,))
        client.submit(first, files)
        (place / "filler").write_bytes(bytes(30 * MEGABYTE))
        refused = new_graph(job_id=ids.job(), artifacts=(wheel,))
        for graph, sent in ((refused, files), (new_graph(job_id=ids.job()), {})):
            with pytest.raises(StorageFull, match=r"kept for the records.*blob\.storage\.min-free"):
                client.submit(graph, sent)
        assert not (place / "storage" / "blobs" / refused.job_id).exists()
        assert list((place / "work" / "master-1" / "requests").iterdir()) == []
        assert client.submit(first, files).repeated
        assert len(client.jobs()) == 2
        (place / "filler").unlink()
        client.submit(refused, files)
