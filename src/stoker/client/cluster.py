"""Clusters and jobs as objects, for programs without an event loop and with one.

Each method is written once, as an operation (see steps.py). On a Cluster or a Job it returns its
value; on an AsyncCluster or an AsyncJob it is awaited.
"""

from abc import abstractmethod
from codecs import getincrementaldecoder, iterdecode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack
from urllib.parse import unquote

from stoker.api.cluster import ClusterOverviewAnswer
from stoker.api.jobs import JobExceptionHistory, JobOverview
from stoker.client import calls, operations
from stoker.client.blocking import BlockingClient
from stoker.client.calls import ReplacementSettings
from stoker.client.job_names import find_job, whole_id
from stoker.client.notebook_view import NotebookView
from stoker.client.rows import Rows
from stoker.client.source import load, load_sql
from stoker.client.steps import Asynchronous, Blocking, Operation, Request, RestCall, Steps
from stoker.core.errors import InvalidInput
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from stoker.client.asynchronous import AsyncClient
    from stoker.pipeline import Pipeline
    from stoker.pipeline.demands import DemandOverrides

T = TypeVar("T")
J = TypeVar("J")
"""Job or AsyncJob."""


class _ClusterOperations(Generic[J]):
    @abstractmethod
    def job(self, job_id: str) -> J:
        """A handle on a job."""

    @Operation
    def submit(
        self,
        job: "Pipeline | JobGraph | str | Path",
        *,
        params: Mapping[str, Any] | None = None,
        arguments: Sequence[str] = (),
        name: str | None = None,
        configuration: Mapping[str, str] | None = None,
        **demands: "Unpack[DemandOverrides]",
    ) -> Steps[J]:
        """Submit a job. Returns when the cluster has recorded it, so no fail-over loses it.

        A fail-over meanwhile does no harm: the job has its id before it is sent, and the cluster
        accepts each id once. InvalidInput says what is wrong with the job; nothing is sent then.

        - `job`: a Pipeline, the path of a Python, YAML or SQL file, or of any PySpark script;
          `"FILE.py:name"` chooses one of several pipelines in a file.
        - `params`: values of the job's parameters, by name.
        - `arguments`: what a Python file finds in `sys.argv[1:]`.
        - `name`: name of the job, in place of its own.
        - `configuration`: Spark settings, which override those of the job.
        - `queue`, `priority`, `slots`, `resources`: as in `Pipeline`; they override what the job
          asks for.
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
        **demands: "Unpack[DemandOverrides]",
    ) -> Steps[J]:
        """Submit SQL statements as one job: they run one after the other in one session.

        - `script`: the statements, with a semicolon between them.
        - `name`: name of the job, unless the script begins with `-- name: NAME`.

        The other arguments are those of `submit`.
        """
        loaded = load_sql(
            script, default_name=name, params=params, configuration=configuration, demands=demands
        )
        answer = yield from calls.submit(loaded.graph)
        return self.job(answer.job_id)

    @Operation
    def find(self, job: str) -> Steps[J]:
        """The job with this id, this beginning of an id, or this name. NotFound if there is none.

        A name that several jobs share means the one that has not ended, else the newest of them.
        """
        return self.job((yield from find_job(job)))

    @Operation
    def jobs(self) -> RestCall[list[JobOverview]]:
        """All jobs that the cluster knows, running and ended."""
        return calls.jobs()

    @Operation
    def overview(self) -> RestCall[ClusterOverviewAnswer]:
        """Counts of task executors, slots and jobs."""
        return calls.overview()


class _JobOperations(Generic[J]):
    """Operations on one job. Each one asks the cluster; nothing is cached."""

    id: JobId

    @abstractmethod
    def _other(self, job_id: JobId) -> J:
        """A handle on another job of the same cluster."""

    def __repr__(self) -> str:
        return f"<stoker job {self.id[:12]}>"

    @Operation
    def status(self) -> RestCall[JobStatus]:
        """The status, such as RUNNING. NotFound if the cluster does not know the job."""
        return calls.status(self.id)

    @Operation
    def details(self) -> RestCall[JobDetails]:
        """Status, regions, attempts, progress and failures."""
        return calls.job(self.id)

    @Operation
    def exceptions(self) -> RestCall[JobExceptionHistory]:
        """The latest failures, also those after which the job was restarted."""
        return calls.exceptions(self.id)

    @Operation
    def cancel(self) -> RestCall[None]:
        """Request the cancellation. It is recorded before this returns: no fail-over undoes it."""
        return calls.cancel(self.id)

    @Operation
    def savepoint(self, directory: str | None = None) -> Steps[str]:
        """Take a savepoint while the job runs on; returns its path when it is complete.

        SavepointFailed if it fails; CallTimedOut after `client.operation-timeout`.

        - `directory`: where savepoints go; None means the cluster's directory.
        """
        return operations.savepoint(self.id, directory)

    @Operation
    def stop(
        self, directory: str | None = None, *, limit_seconds: float | None = None
    ) -> Steps[str]:
        """End a streaming job at batch boundaries, with a savepoint; returns its path.

        If SavepointFailed is raised, the job runs on.

        - `directory`: where savepoints go; None means the cluster's directory.
        - `limit_seconds`: how long a query may take to reach the end of a batch; None means the
          cluster's `savepoint.stop.boundary-timeout`.
        """
        return operations.stop(self.id, directory, limit_seconds=limit_seconds)

    @Operation
    def upgrade(
        self,
        job: "Pipeline | JobGraph | str | Path",
        *,
        params: Mapping[str, Any] | None = None,
        settings: ReplacementSettings | None = None,
    ) -> Steps[J]:
        """Replace a streaming job by a new version, which starts from a savepoint of the old one.

        Returns the new job once it has run for its trial window. If it fails, the old version is
        restored, and JobFailed names the job that runs. The cluster completes the upgrade even if
        this program ends.

        - `job`, `params`: the new version, as in `submit`.
        - `settings`: length of the trial window (by default 30 seconds), directory of the
          savepoint, and whether state that the new version does not use may be dropped.
        """
        loaded = load(job, params=params)
        start = calls.begin_upgrade(self.id, loaded.graph, loaded.files_by_hash, settings=settings)
        return self._other((yield from operations.successor(self.id, start)))

    @Operation
    def rescale(self, partitions: int, *, settings: ReplacementSettings | None = None) -> Steps[J]:
        """Replace a streaming job by itself, with its state repartitioned; returns the new job.

        - `partitions`: number of partitions of the state from then on.
        - `settings`: as in `upgrade`, by default without a trial window.
        """
        start = calls.begin_rescale(self.id, partitions, settings=settings)
        return self._other((yield from operations.successor(self.id, start)))

    @Operation
    def wait(
        self,
        timeout: float | None = None,
        *,
        progress: Callable[[JobDetails], None] | None = None,
    ) -> Steps[JobStatus]:
        """Wait until the job has ended; returns its final status.

        - `timeout`: seconds after which CallTimedOut is raised, while the job runs on; None means
          to wait without a limit.
        - `progress`: called with the job's details now, after each change and about once a second.
        """
        return operations.watch(self.id, timeout, progress)

    @Operation
    def result(self, timeout: float | None = None) -> Steps[JobDetails]:
        """Wait until the job has FINISHED; returns its details. JobFailed with the cause otherwise.

        - `timeout`: as in `wait`.
        """
        return operations.result(self.id, timeout)

    @Operation
    def rows(self, query: int | None = None, *, timeout: float | None = None) -> Steps[Rows]:
        """Wait until a SQL job has FINISHED; returns the rows of one of its queries, as a list.

        Each row is a `Row`: `row[0]`, `row["name"]` or `row.name`. The cluster keeps a bounded
        number of rows; `truncated` of the list says why some are missing, and is empty if all are
        there. NotFound if the job has no such query; JobFailed as in `result`.

        - `query`: number of the query in the script, from 1 on; None means the last one.
        - `timeout`: as in `wait`.
        """
        return operations.result_rows(self.id, query, timeout)

    @Operation
    def to_arrow(
        self, query: int | None = None, *, timeout: float | None = None
    ) -> Steps["pyarrow.Table"]:
        """The same rows as a table of pyarrow, which has to be installed."""
        return (yield from operations.result_rows(self.id, query, timeout)).to_arrow()

    @Operation
    def to_pandas(
        self, query: int | None = None, *, timeout: float | None = None
    ) -> Steps["pandas.DataFrame"]:
        """The same rows as a DataFrame of pandas, which has to be installed, like pyarrow."""
        return (yield from operations.result_rows(self.id, query, timeout)).to_pandas()

    @Operation
    def show(self) -> Steps[JobStatus]:
        """Show in a notebook how the job proceeds until its end; returns the final status."""
        view = NotebookView((yield from calls.job(self.id)))
        return (yield from operations.watch(self.id, None, view.update))

    @Operation
    def logs(self, stream: str = "stdout") -> Steps[str]:
        """What the current attempts of the job have printed so far.

        - `stream`: `"stdout"` or `"stderr"`.
        """
        return operations.log_text(self.id, stream)


class Cluster(_ClusterOperations["Job"], Blocking):
    """A cluster, as `stoker.connect()` returns it. Threads may share it.

    Connections stay open between calls. `with` closes them at its end; without it they are closed
    when the object is no longer used.
    """

    def __init__(self, client: BlockingClient) -> None:
        self.client = client

    def __repr__(self) -> str:
        return f"<stoker cluster {unquote(self.client.masters)}>"

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
        """A handle on a job: by its id, without a question to the cluster, or as in `find`."""
        return Job(self.client, whole_id(job_id) or self.client.run(find_job(job_id)))


class Job(_JobOperations["Job"], Blocking):
    """A job of a cluster, by its `id`. Each method asks the cluster; nothing is cached.

    As the last value of a notebook cell it shows the state of the job, until the job has ended.
    """

    def __init__(self, client: BlockingClient, job_id: JobId) -> None:
        self._client = client
        self.id = job_id

    def run(self, request: Request[T]) -> T:
        return self._client.run(request)

    def follow_logs(self, stream: str = "stdout") -> Iterator[str]:
        """What the current attempts of the job print, piece by piece, until the job has ended.

        - `stream`: `"stdout"` or `"stderr"`.
        """
        pieces = self._client.stream(operations.log(self.id, stream, follow=True))
        return iterdecode(pieces, "utf-8", errors="replace")

    def _other(self, job_id: JobId) -> "Job":
        return Job(self._client, job_id)

    def _ipython_display_(self) -> None:
        """Show the job in a notebook, and keep the picture up to date without holding the cell."""
        view = NotebookView(self.details())
        view.follow(lambda: self.wait(progress=view.update))


class AsyncCluster(_ClusterOperations["AsyncJob"], Asynchronous):
    """A cluster, as `stoker.connect_async()` returns it.

    Connections stay open between calls; `async with` closes them at its end.
    """

    def __init__(self, client: "AsyncClient") -> None:
        self.client = client

    def __repr__(self) -> str:
        return f"<stoker cluster {unquote(self.client.masters)}>"

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
        """A handle on the job with this id. Nothing is sent, so the job need not exist.

        InvalidInput for a name: `await cluster.find(name)` gives the handle of such a job.
        """
        known = whole_id(job_id)
        if known is None:
            raise InvalidInput(
                f"{job_id!r} is not the id of a job; a job is found by its name, or by the "
                f"beginning of its id, with: await cluster.find({job_id!r})"
            )
        return AsyncJob(self.client, known)


class AsyncJob(_JobOperations["AsyncJob"], Asynchronous):
    """A job of a cluster, by its `id`. Each method asks the cluster; nothing is cached."""

    def __init__(self, client: "AsyncClient", job_id: JobId) -> None:
        self._client = client
        self.id = job_id

    async def run(self, request: Request[T]) -> T:
        return await self._client.run(request)

    async def follow_logs(self, stream: str = "stdout") -> AsyncIterator[str]:
        """What the current attempts of the job print, piece by piece, until the job has ended.

        - `stream`: `"stdout"` or `"stderr"`.
        """
        decoder = getincrementaldecoder("utf-8")(errors="replace")
        async for piece in self._client.stream(operations.log(self.id, stream, follow=True)):
            yield decoder.decode(piece)

    def _other(self, job_id: JobId) -> "AsyncJob":
        return AsyncJob(self._client, job_id)
