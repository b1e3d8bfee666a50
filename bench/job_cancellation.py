"""Cancels the jobs that a round has left waiting, so that every round begins with none of them."""

import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

_THREADS = 8
_POLL_SECONDS = 0.2


def cancel_jobs(url: str, name: str) -> None:
    """Cancel all jobs with this name, and wait until they have ended."""
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda job: _cancel(url, job), _live_jobs(url, name)))
    while _live_jobs(url, name):
        time.sleep(_POLL_SECONDS)


def _live_jobs(url: str, name: str) -> list[str]:
    states = "INITIALIZING,CREATED,RUNNING,CANCELLING"
    with urllib.request.urlopen(f"{url}/jobs/overview?state={states}&name={name}") as answer:
        return [job["jid"] for job in json.load(answer)["jobs"]]


def _cancel(url: str, job_id: str) -> None:
    request = urllib.request.Request(f"{url}/jobs/{job_id}", method="PATCH")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 202, answer.status
