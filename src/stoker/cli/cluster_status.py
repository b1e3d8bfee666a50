"""What `stoker cluster status` shows: processes, the leading master, slots and jobs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker.api.cluster import ClusterOverviewAnswer, TaskManager
from stoker.api.jobs import JobOverview
from stoker.cli.output import echo_json, stdout_table
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import StokerError
from stoker.processes.local.cluster_state import ClusterState, ProcessRecord, url_of


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the leading master says."""

    overview: ClusterOverviewAnswer | None = None
    task_executors: list[TaskManager] = field(default_factory=list)
    jobs: list[JobOverview] = field(default_factory=list)
    failure: str | None = None
    """Why no master has answered; None if one has, or if none runs."""

    @property
    def leader(self) -> str | None:
        """URL of the leading master."""
        return (self.overview.leader or None) if self.overview else None

    @property
    def epoch(self) -> int | None:
        known = self.overview.leader_epoch if self.overview else None
        return known if isinstance(known, int) else None

    @property
    def jobs_by_state(self) -> dict[str, int]:
        return dict(sorted(Counter(job.state.value for job in self.jobs).items()))


def ask_for_report(masters: str, client: ClientOptions) -> Report:
    """`masters` are those that run; an empty text if none does."""
    if not masters:
        return Report()
    try:
        with BlockingClient(masters, client) as asked:
            return Report(
                overview=asked.overview(), task_executors=asked.task_executors(), jobs=asked.jobs()
            )
    except StokerError as error:
        return Report(failure=error.message)


def urls_of_running(directory: Path, state: ClusterState) -> dict[str, str]:
    urls = {record.name: url_of(directory, record) for record in state.masters if record.alive}
    return {name: url for name, url in urls.items() if url}


def status_text(directory: Path, state: ClusterState, report: Report) -> str:
    urls = urls_of_running(directory, state)
    rows = [
        (
            record.name,
            str(record.pid),
            _state_text(record, leads=urls.get(record.name, "") == report.leader),
            urls.get(record.name) or "-",
            Path(record.log).name,
        )
        for record in state.processes
    ]
    table = stdout_table(("PROCESS", "PID", "STATE", "REST", "LOG"), rows, shorten=(0, 4))
    parts = [f"{table}\n\nLogs are in {directory / 'log'}"]
    if report.failure is not None:
        parts.append(f"No master is leading: {report.failure}")
    if report.overview is not None:
        parts.append(_report_text(report.overview, report.jobs_by_state))
    if state.dead:
        parts.append("Start what died again with: stoker cluster up")
    return "\n\n".join(parts)


def _state_text(record: ProcessRecord, *, leads: bool) -> str:
    if not record.alive:
        return "died"
    return "running, leads" if leads else "running"


def _report_text(overview: ClusterOverviewAnswer, jobs: Mapping[str, int]) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in jobs.items()) or "none"
    return (
        f"Task executors: {overview.taskmanagers}, slots: {overview.slots_total} "
        f"({overview.slots_available} free), jobs: {counts}"
    )


def echo_status(directory: Path, state: ClusterState, report: Report) -> None:
    """The status as JSON; what only a master knows is null while none answers."""
    urls = urls_of_running(directory, state)
    name = next((name for name, url in urls.items() if url == report.leader), None)
    overview = report.overview
    echo_json(
        {
            "directory": str(directory),
            "processes": [
                {
                    "name": record.name,
                    "pid": record.pid,
                    "alive": record.alive,
                    "url": urls.get(record.name),
                    "log": record.log,
                }
                for record in state.processes
            ],
            "leader": (
                {"name": name, "url": report.leader, "epoch": report.epoch}
                if report.leader
                else None
            ),
            "slots": (
                {"total": overview.slots_total, "free": overview.slots_available}
                if overview
                else None
            ),
            "task_executors": (
                [
                    {"id": each.id, "slots_total": each.slots_number, "slots_free": each.free_slots}
                    for each in report.task_executors
                ]
                if overview
                else None
            ),
            "jobs": report.jobs_by_state if overview else None,
        }
    )
