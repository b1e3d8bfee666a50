"""What a program without an event loop works with: a cluster and its jobs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from stoker.api.cluster import Overview
from stoker.api.jobs import ExceptionHistory, JobOverview
from stoker.client.blocking import BlockingClient
from stoker.client.calls import Replacing
from stoker.client.ending import failure_of, replaced_by
from stoker.client.log_reading import LogReading
from stoker.client.progress import job_html
from stoker.client.source import load, load_sql
from stoker.core.errors import CallTimedOut
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus

if TYPE_CHECKING:
    from stoker.pipeline import Pipeline
    from stoker.pipeline.demands import GivenDemands

POLL_SECONDS = 1.0
"""How often somebody who watches is told of progress."""


class Cluster:
    """Made by `stoker.connect()`."""

    def __init__(self, client: BlockingClient) -> None:
        self.client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing stays open between calls."""

    def submit(
        self,
        job: "Pipeline | JobGraph | str | Path",
        *,
        params: Mapping[str, Any] | None = None,
        arguments: Sequence[str] = (),
        name: str | None = None,
        configuration: Mapping[str, str] | None = None,
        **demands: "Unpack[GivenDemands]",
    ) -> "Job":
        """Hand in a pipeline, a graph, or a file: Python, YAML, SQL or any PySpark script.

        `queue`, `priority`, `slots` and `resources` go before what the job says of itself.
        Returns when the job is durable. Safe against a fail-over in between: the job has its id
        before it is sent, and is accepted once.
        """
        loaded = load(
            job,
            params=params,
            arguments=arguments,
            name=name,
            configuration=configuration,
            demands=demands,
        )
        return Job(self.client, self.client.submit(loaded.graph, loaded.files_by_hash).job_id)

    def sql(
        self,
        script: str,
        *,
        params: Mapping[str, Any] | None = None,
        name: str = "sql",
        configuration: Mapping[str, str] | None = None,
        **demands: "Unpack[GivenDemands]",
    ) -> "Job":
        """Hand in statements as one job: they run one after the other in one session."""
        loaded = load_sql(
            script, default_name=name, params=params, configuration=configuration, demands=demands
        )
        return Job(self.client, self.client.submit(loaded.graph).job_id)

    def job(self, job_id: str) -> "Job":
        return Job(self.client, JobId(job_id))

    def jobs(self) -> list[JobOverview]:
        return self.client.jobs()

    def overview(self) -> Overview:
        return self.client.overview()


class Job:
    """One job. Every question goes to the cluster; nothing is remembered here."""

    def __init__(self, client: BlockingClient, job_id: JobId) -> None:
        self._client = client
        self.id = job_id

    def status(self) -> JobStatus:
        return self._client.status(self.id)

    def details(self) -> JobDetails:
        return self._client.job(self.id)

    def exceptions(self) -> ExceptionHistory:
        return self._client.exceptions(self.id)

    def cancel(self) -> None:
        """Durable: it is cancelled even when the master dies now."""
        self._client.cancel(self.id)

    def savepoint(self, directory: str | None = None) -> str:
        """Where it is, once it is there; the job goes on. SavepointFailed with the cause."""
        return self._client.savepoint(self.id, directory)

    def stop(self, directory: str | None = None, *, limit_seconds: float | None = None) -> str:
        """End a streaming job at batch boundaries; where the savepoint of that moment is."""
        return self._client.stop(self.id, directory, limit_seconds=limit_seconds)

    def upgrade(
        self,
        job: "Pipeline | JobGraph | str | Path",
        *,
        params: Mapping[str, Any] | None = None,
        replacing: Replacing | None = None,
    ) -> "Job":
        """The job that runs when it is done: JobFailed, which names it, if it is the old one.

        The cluster does it, whatever becomes of this program.
        """
        loaded = load(job, params=params)
        trigger_id = self._client.begin_upgrade(
            self.id, loaded.graph, loaded.files_by_hash, replacing=replacing
        )
        return Job(self._client, replaced_by(self._client.replacement(self.id, trigger_id)))

    def rescale(self, partitions: int, *, replacing: Replacing | None = None) -> "Job":
        """The same job with its state divided into so many partitions, under another id."""
        trigger_id = self._client.begin_rescale(self.id, partitions, replacing=replacing)
        return Job(self._client, replaced_by(self._client.replacement(self.id, trigger_id)))

    def wait(
        self,
        timeout: float | None = None,
        *,
        progress: Callable[[JobDetails], None] | None = None,
    ) -> JobStatus:
        """The final state; CallTimedOut when it has not ended by then, and goes on."""
        deadline = None if timeout is None else time.monotonic() + timeout
        status = self.status()
        while not status.globally_terminal:
            if progress is not None:
                progress(self.details())
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise CallTimedOut(f"job {self.id} is still {status} after {timeout:g} s")
            hold = POLL_SECONDS if progress is not None else 20.0
            seconds = hold if left is None else min(hold, left)
            status = self._client.wait_for_change(self.id, status, seconds)
        if progress is not None:
            progress(self.details())
        return status

    def result(self, timeout: float | None = None) -> JobDetails:
        """Wait for the end; JobFailed with the cause unless it is FINISHED."""
        self.wait(timeout)
        details = self.details()
        failure = failure_of(details)
        if failure is not None:
            raise failure
        return details

    def logs(self, stream: str = "stdout", *, follow: bool = False) -> Iterator[bytes]:
        """Pieces of what its attempts wrote; with `follow`, until the job has ended."""
        reading = LogReading()
        while True:
            details = self.details()
            for attempt in reading.attempts_of(details):
                while data := reading.taken(
                    attempt,
                    self._client.attempt_log(self.id, attempt, stream, reading.offset(attempt)),
                ):
                    yield data
            if details.status.globally_terminal or not follow:
                return
            time.sleep(POLL_SECONDS)

    def show(self) -> JobStatus:
        """In a notebook: a view that follows the job until its end."""
        # Only notebooks have it, and only this method needs it.
        from IPython.display import HTML, display  # noqa: PLC0415

        view = display(HTML(job_html(self.details())), display_id=True)
        return self.wait(progress=lambda details: view.update(HTML(job_html(details))))

    def _repr_html_(self) -> str:
        return job_html(self.details())

    def __repr__(self) -> str:
        return f"<stoker job {self.id}>"
