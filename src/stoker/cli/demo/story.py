"""The demo, step by step: each step does something and says in a sentence what it shows."""

import time
from contextlib import closing
from pathlib import Path

import pyarrow.types
from pyarrow import parquet
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from stoker.cli.command_name import own_command
from stoker.cli.display import Display, PlainDisplay, job_end_text
from stoker.cli.follow import POLL_SECONDS, JobFollower, leave_without_question
from stoker.cli.live_display import LiveDisplay
from stoker.cli.output import duration_text
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import StokerError
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.pipeline.building import LoadedJob
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import ClusterState

_INTRODUCTION = (
    "Stoker is a job service for PySpark. It accepts jobs through a REST API, stores each job "
    "before it answers, runs it on a warm Spark, and survives the death of any of its processes."
)


class Story:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._step = 0
        self._ended: list[JobDetails] = []
        self._same_run: bool | None = None

    @property
    def outcome(self) -> dict[str, object]:
        jobs = [
            {"job_id": job.job_id, "name": job.name, "state": job.status} for job in self._ended
        ]
        seconds = round(time.monotonic() - self._began, 1)
        return {"jobs": jobs, "same_run_after_kill": self._same_run, "seconds": seconds}

    def begin(self) -> None:
        self._console.print(Panel(_INTRODUCTION, title="Stoker", expand=False))

    def show_data(self, directory: Path) -> None:
        files = sum(1 for path in directory.rglob("*") if path.is_file())
        self._start_step("Data")
        self._tell(f"Generated {files} files of orders, products and clicks.")

    def show_cluster(self, cluster: LocalCluster) -> None:
        self._start_step("A cluster on this machine")
        self._tell(
            "A master schedules jobs and keeps their records; a task executor runs them on its own "
            "Spark. The embedded coordinator holds leadership and records: files, and a lock that "
            "the kernel releases when the process dies."
        )
        with self._console.status("starting master and task executor"):
            cluster.wait_until_ready()
        self._console.print(processes_table(cluster))
        self._tell(
            f"The REST API listens at [bold]{cluster.urls}[/] "
            "(try /jobs/overview or /openapi.json)."
        )

    def run_batch(self, cluster: LocalCluster, job: LoadedJob, out: Path) -> None:
        self._start_step("A batch pipeline")
        self._tell(
            "Three regions: sales are computed once, then two sinks read them. The job's graph is "
            "plain data; its functions are loaded only in the process that runs them."
        )
        client = BlockingClient(cluster.masters, ClientOptions(token=cluster.token))
        job_id = self._submit(client, job)
        self._tell(
            "A first job warms Spark up; then a runner process stands ready for the next one."
        )
        self._show_end(self._follow(client, job_id))
        self._console.print(result_table(out / "revenue_by_day", "revenue by day", "day"))
        self._console.print(result_table(out / "best_products", "best products", "-revenue"))

    def run_streaming(self, cluster: LocalCluster, job: LoadedJob, out: Path) -> None:
        self._start_step("A streaming pipeline, and a master that dies")
        self._tell("Clicks arrive as files; a query counts them in windows of five minutes.")
        client = BlockingClient(cluster.masters, ClientOptions(token=cluster.token))
        job_id = self._submit(client, job)
        before = self._until_first_batch(client, job_id)
        if not before.status.globally_terminal:
            self._kill_master(cluster)
        details = self._follow(client, job_id)
        self._compare_runs(before, details)
        self._show_end(details)
        self._console.print(
            result_table(out / "page_views", "page views in five minutes", "since", "page")
        )

    def clean_up(self, cluster: LocalCluster) -> None:
        self._start_step("Cleaning up")
        with self._console.status("stopping the cluster"):
            cluster.stop()
        self._tell("Master, task executor and Spark have stopped, and their files are removed.")

    def end(self) -> None:
        took = duration_text(round((time.monotonic() - self._began) * 1000))
        self._console.print()
        self._tell(f"[bold green]That was Stoker, in {took}.[/] Next, a project of your own:")
        self._console.print(f"  {own_command()} init my-project", soft_wrap=True, markup=False)

    def _submit(self, client: BlockingClient, job: LoadedJob) -> JobId:
        job_id = client.submit(job.graph, job.files_by_hash).job_id
        self._tell(
            f"Job [bold]{job_id[:12]}[/] is accepted: its graph is on disk, so from now on it "
            "cannot be lost. Next, it is scheduled to a slot."
        )
        return job_id

    def _follow(self, client: BlockingClient, job_id: JobId) -> JobDetails:
        with closing(self._display()) as display:
            return JobFollower(client, job_id, display, leave_without_question).until_end()

    def _until_first_batch(self, client: BlockingClient, job_id: JobId) -> JobDetails:
        with closing(self._display()) as display:
            while True:
                details = client.job(job_id)
                display.show(details)
                if details.status.globally_terminal or _run_ids(details):
                    return details
                client.wait_for_change(job_id, details.status, POLL_SECONDS)

    def _kill_master(self, cluster: LocalCluster) -> None:
        state = cluster.state
        assert state is not None
        master = state.masters[0]
        cluster.kill(master)
        self._tell(
            f"[bold red]kill -9 {master.pid}[/]: the only master is dead; Spark keeps running."
        )
        with self._console.status("starting a master again"):
            cluster.start_missing()
            cluster.wait_until_ready()
        self._tell("The new master has read the records and adopted the running query.")

    def _compare_runs(self, before: JobDetails, after: JobDetails) -> None:
        started, ended = _run_ids(before), _run_ids(after)
        self._same_run = bool(started) and started == ended
        if self._same_run:
            self._tell(f"It is still the same run of the query: [bold]{started[0]}[/].")

    def _show_end(self, details: JobDetails) -> None:
        text = job_end_text(details)
        if details.status is not JobStatus.FINISHED:
            raise StokerError(f"the demo failed: {text}")
        self._ended.append(details)
        self._tell(f"[green]{text}[/] Its result is recorded: this job will never run again.")

    def _display(self) -> Display:
        if self._console.is_terminal:
            return LiveDisplay(self._console)
        return PlainDisplay(lambda text: self._console.print(text, markup=False))

    def _start_step(self, title: str) -> None:
        self._step += 1
        self._console.print(f"\n[bold cyan]{self._step}. {title}[/]")

    def _tell(self, text: str) -> None:
        self._console.print(text)


def _run_ids(details: JobDetails) -> list[str]:
    ids = [region.current.progress.run_id for region in details.regions]
    return [run_id for run_id in ids if run_id]


MAX_ROWS = 10
"""Number of rows of a result that are shown."""


def processes_table(cluster: LocalCluster) -> Table:
    table = Table("process", "pid", "log", title="Processes", title_justify="left")
    for record in (cluster.state or ClusterState()).processes:
        table.add_row(record.name, str(record.pid), record.log)
    return table


def result_table(directory: Path, title: str, *order: str) -> Table:
    """The result sorted by the named columns; a dash before a name sorts in descending order."""
    content = parquet.read_table(directory)
    keys = [(name.lstrip("-"), _direction(name)) for name in order]
    rows = content.sort_by(keys).to_pylist()
    count = (
        f"{len(rows)} rows" if len(rows) <= MAX_ROWS else f"first {MAX_ROWS} of {len(rows)} rows"
    )
    table = Table(title=f"{title} ({count})", title_justify="left")
    for field in content.schema:
        number = pyarrow.types.is_floating(field.type) or pyarrow.types.is_integer(field.type)
        table.add_column(field.name, justify="right" if number else "left")
    for row in rows[:MAX_ROWS]:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _direction(name: str) -> str:
    return "descending" if name.startswith("-") else "ascending"


def _cell(value: object) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
