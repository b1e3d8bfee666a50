"""Ends what a round has left waiting, so that the next one begins with as many as it did."""

import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

_AT_ONCE = 8
_LOOK_SECONDS = 0.2


def cancel_jobs(url: str, name: str) -> None:
    """All of that name; returns when they have ended."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda job: _cancel(url, job), _living(url, name)))
    while _living(url, name):
        time.sleep(_LOOK_SECONDS)


def _living(url: str, name: str) -> list[str]:
    states = "INITIALIZING,CREATED,RUNNING,CANCELLING"
    with urllib.request.urlopen(f"{url}/jobs/overview?state={states}&name={name}") as answer:
        return [job["jid"] for job in json.load(answer)["jobs"]]


def _cancel(url: str, job_id: str) -> None:
    request = urllib.request.Request(f"{url}/jobs/{job_id}", method="PATCH")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 202, answer.status
