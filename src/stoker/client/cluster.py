"""Clusters and jobs as objects, for programs without an event loop and with one.

Each method is written once, as an operation (see steps.py). On a Cluster or a Job it returns its
value; on an AsyncCluster or an AsyncJob it is awaited.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from stoker.api.cluster import ClusterOverviewAnswer
from stoker.api.jobs import JobExceptionHistory, JobOverview
from stoker.client import calls, operations
from stoker.client.blocking import BlockingClient
from stoker.client.calls import Replacing
from stoker.client.progress import job_html
from stoker.client.source import load, load_sql
from stoker.client.steps import Asynchronous, Blocking, Call, Operation, Request, Steps
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus

if TYPE_CHECKING:
    from stoker.client.asynchronous import AsyncClient
    from stoker.pipeline import Pipeline
    from stoker.pipeline.demands import GivenDemands

T = TypeVar("T")
J = TypeVar("J")
"""Job or AsyncJob."""


class _ClusterOperations(Generic[J]):
    @abstractmethod
    def job(self, job_id: str) -> J:
        """A handle on the job; nothing is sent."""

    @Operation
    def submit(
        self,
        job: "Pipeline | JobGraph | str | Path",
        *,
        params: Mapping[str, Any] | None = None,
        arguments: Sequence[str] = (),
        name: str | None = None,
        configuration: Mapping[str, str] | None = None,
        **demands: "Unpack[GivenDemands]",
    ) -> Steps[J]:
        """Submit a pipeline, a graph, or a file: Python, YAML, SQL or any PySpark script.

        `queue`, `priority`, `slots` and `resources` override what the job says of itself.
        Returns when the job is durable. A fail-over in between does no harm: the job has its id
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
        answer = yield from calls.submit(loaded.graph, loaded.files_by_hash)
        return self.job(answer.job_id)

    @Operation
    def sql(
        self,
        script: str,
        *,
        params: Mapping[str, Any] | None = None,
        name: str = "sql",
        configuration: Mapping[str, str] | None = None,
        **demands: "Unpack[GivenDemands]",
    ) -> Steps[J]:
        """Submit SQL statements as one job: they run one after the other in one session."""
        loaded = load_sql(
            script, default_name=name, params=params, configuration=configuration, demands=demands
        )
        answer = yield from calls.submit(loaded.graph)
        return self.job(answer.job_id)

    @Operation
    def jobs(self) -> Call[list[JobOverview]]:
        return calls.jobs()

    @Operation
    def overview(self) -> Call[ClusterOverviewAnswer]:
        return calls.overview()


class _JobOperations(Generic[J]):
    """Every question goes to the cluster; nothing is cached here."""

    id: JobId

    @abstractmethod
    def _other(self, job_id: JobId) -> J: ...

    def __repr__(self) -> str:
        return f"<stoker job {self.id}>"

    @Operation
    def status(self) -> Call[JobStatus]:
        return calls.status(self.id)

    @Operation
    def details(self) -> Call[JobDetails]:
        return calls.job(self.id)

    @Operation
    def exceptions(self) -> Call[JobExceptionHistory]:
        return calls.exceptions(self.id)

    @Operation
    def cancel(self) -> Call[None]:
        """Request the cancellation. It is durable: no fail-over undoes it."""
        return calls.cancel(self.id)

    @Operation
    def savepoint(self, directory: str | None = None) -> Steps[str]:
        """Path of the finished savepoint, while the job runs on. SavepointFailed with the cause."""
        return operations.savepoint(self.id, directory)

    @Operation
    def stop(
        self, directory: str | None = None, *, limit_seconds: float | None = None
    ) -> Steps[str]:
        """End a streaming job at batch boundaries; the path of the savepoint made then."""
        return operations.stop(self.id, directory, limit_seconds=limit_seconds)

    @Operation
    def upgrade(
        self,
        job: "Pipeline | JobGraph | str | Path",
        *,
        params: Mapping[str, Any] | None = None,
        replacing: Replacing | None = None,
    ) -> Steps[J]:
        """The job that replaced this one. JobFailed, naming the job that runs, if none did.

        The cluster completes the upgrade even if this program ends.
        """
        loaded = load(job, params=params)
        begun = calls.begin_upgrade(
            self.id, loaded.graph, loaded.files_by_hash, replacing=replacing
        )
        return self._other((yield from operations.successor(self.id, begun)))

    @Operation
    def rescale(self, partitions: int, *, replacing: Replacing | None = None) -> Steps[J]:
        """The same job, under another id, with its state divided into `partitions` partitions."""
        begun = calls.begin_rescale(self.id, partitions, replacing=replacing)
        return self._other((yield from operations.successor(self.id, begun)))

    @Operation
    def wait(
        self,
        timeout: float | None = None,
        *,
        progress: Callable[[JobDetails], None] | None = None,
    ) -> Steps[JobStatus]:
        """The final status. CallTimedOut if the job, which runs on, has not ended by then."""
        return operations.watch(self.id, timeout, progress)

    @Operation
    def result(self, timeout: float | None = None) -> Steps[JobDetails]:
        """Wait for the end; JobFailed with the cause unless the job is FINISHED."""
        return operations.result(self.id, timeout)

    @Operation
    def show(self) -> Steps[JobStatus]:
        """In a notebook: a view that follows the job until its end."""
        # Only notebooks have IPython, and only this method needs it.
        from IPython.display import HTML, display  # noqa: PLC0415

        details = yield from calls.job(self.id)
        view = display(HTML(job_html(details)), display_id=True)
        return (
            yield from operations.watch(
                self.id, None, lambda details: view.update(HTML(job_html(details)))
            )
        )


class Cluster(_ClusterOperations["Job"], Blocking):
    """Made by `stoker.connect()`. A context manager: connections stay open until its end."""

    def __init__(self, client: BlockingClient) -> None:
        self.client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.client.__exit__(kind, error, traceback)

    def run(self, request: Request[T]) -> T:
        return self.client.run(request)

    def job(self, job_id: str) -> "Job":
        return Job(self.client, JobId(job_id))


class Job(_JobOperations["Job"], Blocking):
    def __init__(self, client: BlockingClient, job_id: JobId) -> None:
        self._client = client
        self.id = job_id

    def run(self, request: Request[T]) -> T:
        return self._client.run(request)

    def logs(self, stream: str = "stdout", *, follow: bool = False) -> Iterator[bytes]:
        """Pieces of what the job's attempts wrote; with `follow`, until the job has ended."""
        return self._client.stream(operations.log(self.id, stream, follow=follow))

    def _other(self, job_id: JobId) -> "Job":
        return Job(self._client, job_id)

    def _repr_html_(self) -> str:
        return job_html(self.details())


class AsyncCluster(_ClusterOperations["AsyncJob"], Asynchronous):
    """Made by `stoker.connect_async()`. Connections stay open until the end of its context."""

    def __init__(self, client: "AsyncClient") -> None:
        self.client = client

    async def __aenter__(self) -> Self:
        await self.client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.client.__aexit__(kind, error, traceback)

    async def run(self, request: Request[T]) -> T:
        return await self.client.run(request)

    def job(self, job_id: str) -> "AsyncJob":
        return AsyncJob(self.client, JobId(job_id))


class AsyncJob(_JobOperations["AsyncJob"], Asynchronous):
    def __init__(self, client: "AsyncClient", job_id: JobId) -> None:
        self._client = client
        self.id = job_id

    async def run(self, request: Request[T]) -> T:
        return await self._client.run(request)

    def logs(self, stream: str = "stdout", *, follow: bool = False) -> AsyncIterator[bytes]:
        """Pieces of what the job's attempts wrote; with `follow`, until the job has ended."""
        return self._client.stream(operations.log(self.id, stream, follow=follow))

    def _other(self, job_id: JobId) -> "AsyncJob":
        return AsyncJob(self._client, job_id)
