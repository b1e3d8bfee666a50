"""Polls masters with as little work as possible, to find out when one answers."""

import http.client
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import url_of

_POLL_SECONDS = 0.01
_TIMEOUT_SECONDS = 60.0


def first_answer(
    urls: list[str],
    begin: float,
    path: str,
    is_wanted: Callable[[Any], bool],
    timeout: float = _TIMEOUT_SECONDS,
) -> float:
    """Seconds from `begin` until one of these masters gives the wanted answer."""
    while True:
        for url in urls:
            answer = _get(url, path)
            if answer is not None and is_wanted(answer):
                return time.perf_counter() - begin
        elapsed = time.perf_counter() - begin
        assert elapsed < timeout, f"no answer within {timeout:g} s"
        time.sleep(_POLL_SECONDS)


def leader_and_others(cluster: LocalCluster) -> tuple[int, list[str]]:
    """Pid of the leader, whose log has the highest epoch, and the URLs of the other masters."""
    state = cluster.state
    assert state is not None
    leader = max(state.masters, key=lambda master: _last_epoch(Path(master.log)))
    urls = [url_of(cluster.directory, m) for m in state.masters if m is not leader]
    return leader.pid, [url for url in urls if url]


def _last_epoch(log: Path) -> int:
    lines = [line for line in log.read_text().splitlines() if " leads, epoch " in line]
    return int(lines[-1].rpartition(" ")[2]) if lines else -1


def _get(url: str, path: str) -> Any:
    """The decoded answer; None if the master does not answer, or knows no leader."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=2)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return json.loads(body) if response.status == 200 else None
