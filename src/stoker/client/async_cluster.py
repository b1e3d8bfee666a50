"""What a program with an event loop works with: a cluster and its jobs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from stoker.api.cluster import Overview
from stoker.api.jobs import ExceptionHistory, JobOverview
from stoker.client.asynchronous import AsyncClient
from stoker.client.calls import Replacing
from stoker.client.cluster import POLL_SECONDS
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


class AsyncCluster:
    """Made by `stoker.connect_async()`; connections stay open until the end of its context."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client

    async def __aenter__(self) -> Self:
        await self.client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.client.__aexit__(*error)

    async def submit(
        self,
        job: "Pipeline | JobGraph | str | Path",
        *,
        params: Mapping[str, Any] | None = None,
        arguments: Sequence[str] = (),
        name: str | None = None,
        configuration: Mapping[str, str] | None = None,
        **demands: "Unpack[GivenDemands]",
    ) -> "AsyncJob":
        """Hand in a pipeline, a graph, or a file: Python, YAML, SQL or any PySpark script."""
        loaded = load(
            job,
            params=params,
            arguments=arguments,
            name=name,
            configuration=configuration,
            demands=demands,
        )
        answer = await self.client.submit(loaded.graph, loaded.files_by_hash)
        return AsyncJob(self.client, answer.job_id)

    async def sql(
        self,
        script: str,
        *,
        params: Mapping[str, Any] | None = None,
        name: str = "sql",
        configuration: Mapping[str, str] | None = None,
        **demands: "Unpack[GivenDemands]",
    ) -> "AsyncJob":
        """Hand in statements as one job: they run one after the other in one session."""
        loaded = load_sql(
            script, default_name=name, params=params, configuration=configuration, demands=demands
        )
        return AsyncJob(self.client, (await self.client.submit(loaded.graph)).job_id)

    def job(self, job_id: str) -> "AsyncJob":
        return AsyncJob(self.client, JobId(job_id))

    async def jobs(self) -> list[JobOverview]:
        return await self.client.jobs()

    async def overview(self) -> Overview:
        return await self.client.overview()


class AsyncJob:
    def __init__(self, client: AsyncClient, job_id: JobId) -> None:
        self._client = client
        self.id = job_id

    async def status(self) -> JobStatus:
        return await self._client.status(self.id)

    async def details(self) -> JobDetails:
        return await self._client.job(self.id)

    async def exceptions(self) -> ExceptionHistory:
        return await self._client.exceptions(self.id)

    async def cancel(self) -> None:
        """Durable: it is cancelled even when the master dies now."""
        await self._client.cancel(self.id)

    async def savepoint(self, directory: str | None = None) -> str:
        """Where it is, once it is there; the job goes on. SavepointFailed with the cause."""
        return await self._client.savepoint(self.id, directory)

    async def stop(
        self, directory: str | None = None, *, limit_seconds: float | None = None
    ) -> str:
        """End a streaming job at batch boundaries; where the savepoint of that moment is."""
        return await self._client.stop(self.id, directory, limit_seconds=limit_seconds)

    async def upgrade(
        self,
        job: "Pipeline | JobGraph | str | Path",
        *,
        params: Mapping[str, Any] | None = None,
        replacing: Replacing | None = None,
    ) -> "AsyncJob":
        """The job that runs when it is done: JobFailed, which names it, if it is the old one.

        The cluster does it, whatever becomes of this program.
        """
        loaded = load(job, params=params)
        trigger_id = await self._client.begin_upgrade(
            self.id, loaded.graph, loaded.files_by_hash, replacing=replacing
        )
        state = await self._client.replacement(self.id, trigger_id)
        return AsyncJob(self._client, replaced_by(state))

    async def rescale(self, partitions: int, *, replacing: Replacing | None = None) -> "AsyncJob":
        """The same job with its state divided into so many partitions, under another id."""
        trigger_id = await self._client.begin_rescale(self.id, partitions, replacing=replacing)
        state = await self._client.replacement(self.id, trigger_id)
        return AsyncJob(self._client, replaced_by(state))

    async def wait(
        self,
        timeout: float | None = None,
        *,
        progress: Callable[[JobDetails], None] | None = None,
    ) -> JobStatus:
        """The final state; CallTimedOut when it has not ended by then, and goes on."""
        try:
            async with asyncio.timeout(timeout):
                return await self._end(progress)
        except TimeoutError as error:
            raise CallTimedOut(f"job {self.id} has not ended after {timeout:g} s") from error

    async def _end(self, progress: Callable[[JobDetails], None] | None) -> JobStatus:
        if progress is None:
            return await self._client.wait(self.id)
        while True:
            details = await self.details()
            progress(details)
            if details.status.globally_terminal:
                return details.status
            await self._client.wait_for_change(self.id, details.status, POLL_SECONDS)

    async def result(self, timeout: float | None = None) -> JobDetails:
        """Wait for the end; JobFailed with the cause unless it is FINISHED."""
        await self.wait(timeout)
        details = await self.details()
        failure = failure_of(details)
        if failure is not None:
            raise failure
        return details

    async def logs(self, stream: str = "stdout", *, follow: bool = False) -> AsyncIterator[bytes]:
        """Pieces of what its attempts wrote; with `follow`, until the job has ended."""
        reading = LogReading()
        while True:
            details = await self.details()
            for attempt in reading.attempts_of(details):
                while data := reading.taken(
                    attempt,
                    await self._client.attempt_log(
                        self.id, attempt, stream, reading.offset(attempt)
                    ),
                ):
                    yield data
            if details.status.globally_terminal or not follow:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def show(self) -> JobStatus:
        """In a notebook: a view that follows the job until its end."""
        # Only notebooks have it, and only this method needs it.
        from IPython.display import HTML, display  # noqa: PLC0415

        view = display(HTML(job_html(await self.details())), display_id=True)
        return await self.wait(progress=lambda details: view.update(HTML(job_html(details))))

    def __repr__(self) -> str:
        return f"<stoker job {self.id}>"
