"""The demo, step by step: what is done, and a sentence that says what it shows."""

import time
from pathlib import Path

from rich.console import Console
from rich.panel import Panel

from stoker.cli.demo.tables import processes_table, result_table
from stoker.cli.display import Display, PlainDisplay, opened
from stoker.cli.ending import ending_text
from stoker.cli.following import LOOK_SECONDS, Following, Wish
from stoker.cli.live_display import LiveDisplay
from stoker.cli.submitting import submit
from stoker.cli.words import duration_text
from stoker.client.blocking import BlockingClient
from stoker.core.errors import StokerError
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.pipeline.building import LoadedJob
from stoker.processes.local.cluster import LocalCluster

_INTRODUCTION = (
    "Stoker is a job service for PySpark. It accepts jobs through a REST API, writes each one "
    "down before it says yes, runs it on warm Spark, and goes on when a process of it dies."
)


def _leave() -> Wish:
    return Wish.LEAVE


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

    def data_made(self, directory: Path) -> None:
        files = sum(1 for path in directory.rglob("*") if path.is_file())
        self._chapter("Data")
        self._tell(f"Made {files} files of orders, products and clicks from a seed.")

    def cluster_started(self, cluster: LocalCluster) -> None:
        self._chapter("A cluster on this machine")
        self._tell(
            "A master decides and remembers; a task executor runs the work on a Spark of its own. "
            "Leadership and records are held by the embedded coordinator: files, and a lock that "
            "the kernel drops when the process dies."
        )
        with self._console.status("starting master and task executor"):
            cluster.wait_until_ready()
        self._console.print(processes_table(cluster))
        self._tell(
            f"The REST API listens at [bold]{cluster.masters}[/] "
            "(try /jobs/overview, or /openapi.json)."
        )

    def run_batch(self, cluster: LocalCluster, job: LoadedJob, out: Path) -> None:
        self._chapter("A batch pipeline")
        self._tell(
            "Three regions: sales are computed once, then two sinks read them. The graph is "
            "plain data; the functions in it are opened only where they run."
        )
        client = BlockingClient(cluster.masters)
        job_id = self._submit(client, job)
        self._tell("First jobs warm Spark up; a runner process is kept ready for the next one.")
        self._show_end(self._follow(client, job_id))
        self._console.print(result_table(out / "revenue_by_day", "revenue by day", "day"))
        self._console.print(result_table(out / "best_products", "best products", "-revenue"))

    def run_streaming(self, cluster: LocalCluster, job: LoadedJob, out: Path) -> None:
        self._chapter("A streaming pipeline, and a master that dies")
        self._tell("Clicks arrive as files; a query counts them in windows of five minutes.")
        client = BlockingClient(cluster.masters)
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
        self._chapter("Cleaning up")
        with self._console.status("stopping the cluster"):
            cluster.stop()
        self._tell("Master, task executor and Spark have stopped; their files are removed.")

    def end(self) -> None:
        took = duration_text(round((time.monotonic() - self._began) * 1000))
        self._console.print()
        self._tell(f"[bold green]That was Stoker, in {took}.[/] Next: stoker cluster up, and")
        self._tell("stoker run examples/orders_batch.py")

    def _submit(self, client: BlockingClient, job: LoadedJob) -> JobId:
        job_id = submit(client, job)
        self._tell(
            f"Job [bold]{job_id[:12]}[/] is accepted: its graph is on disk, so from here on it "
            "cannot be lost. Now it is scheduled onto a slot."
        )
        return job_id

    def _follow(self, client: BlockingClient, job_id: JobId) -> JobDetails:
        with opened(self._display()) as display:
            return Following(client, job_id, display, _leave).until_end()

    def _until_first_batch(self, client: BlockingClient, job_id: JobId) -> JobDetails:
        with opened(self._display()) as display:
            while True:
                details = client.job(job_id)
                display.show(details)
                if details.status.globally_terminal or _run_ids(details):
                    return details
                client.wait_for_change(job_id, details.status, LOOK_SECONDS)

    def _kill_master(self, cluster: LocalCluster) -> None:
        state = cluster.state
        assert state is not None
        master = state.masters[0]
        cluster.kill(master)
        self._tell(
            f"[bold red]kill -9 {master.pid}[/]: the only master is dead; Spark does not notice."
        )
        with self._console.status("starting a master again"):
            cluster.start_missing()
            cluster.wait_until_ready()
        self._tell("A new master has read the records and taken the running query over.")

    def _compare_runs(self, before: JobDetails, after: JobDetails) -> None:
        started, ended = _run_ids(before), _run_ids(after)
        self._same_run = bool(started) and started == ended
        if self._same_run:
            self._tell(f"It is still the same run of the query: [bold]{started[0]}[/].")

    def _show_end(self, details: JobDetails) -> None:
        text = ending_text(details)
        if details.status is not JobStatus.FINISHED:
            raise StokerError(f"the demo did not work: {text}")
        self._ended.append(details)
        self._tell(f"[green]{text}[/] Its result is recorded: this id will never run again.")

    def _display(self) -> Display:
        if self._console.is_terminal:
            return LiveDisplay(self._console)
        return PlainDisplay(lambda text: self._console.print(text, markup=False))

    def _chapter(self, title: str) -> None:
        self._step += 1
        self._console.print(f"\n[bold cyan]{self._step}. {title}[/]")

    def _tell(self, text: str) -> None:
        self._console.print(text)


def _run_ids(details: JobDetails) -> list[str]:
    ids = [region.current.progress.run_id for region in details.regions]
    return [run_id for run_id in ids if run_id]
