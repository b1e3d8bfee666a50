"""Savepoints and checkpoints as text for people."""

import shlex

from stoker.cli.output import duration_text, moment_text, stdout_table
from stoker.core.checkpoints import CheckpointEntry, Checkpoints, SavepointSummary
from stoker.core.graph import JobType
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.savepoints.examination import Examination
from stoker.savepoints.manifest import SavedQuery, SavepointManifest


def size_text(size: int) -> str:
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("unreachable: the last unit has no limit")


def continuation_text(path: str) -> str:
    """`path` is the savepoint with which the earlier run was stopped, or its last checkpoint."""
    is_savepoint = path.rstrip("/").rpartition("/")[2].startswith("savepoint-")
    origin = "the savepoint at the end" if is_savepoint else "the last checkpoint"
    return (
        "The job writes into the output of an earlier run, so it continues from "
        f"{origin} of that run: {path}\n"
        "To begin anew instead, remove the output first, or write into another directory."
    )


def left_state_text(details: JobDetails) -> str | None:
    """What is left of the state of a streaming job that was cancelled or failed."""
    if details.job_type is not JobType.STREAMING:
        return None
    if details.status not in (JobStatus.CANCELED, JobStatus.FAILED):
        return None
    retained = details.checkpoints.retained
    if retained is None or retained.path is None:
        if not details.checkpoints.counts.completed:
            # It has written nothing, so nothing is lost.
            return None
        return (
            "No checkpoint of this job is kept, so a new run cannot continue where it ended. It "
            "reads its sources from their beginning, and needs an output without the files of "
            "this job: remove them first, or name another directory. (stoker stop JOB ends a job "
            "with a savepoint, from which a new run continues.)"
        )
    return (
        f"Its last checkpoint is kept: {retained.path} (until newer ones of this job are enough; "
        "a savepoint of stoker stop stays)\n"
        "Run the same file again, with the same output, and it continues from there by itself. To "
        "continue from there with another job or another output: "
        f"stoker run -s {shlex.quote(retained.path)} FILE"
    )


def savepoints_text(savepoints: list[SavepointSummary]) -> str:
    damaged = any(each.damage for each in savepoints)
    rows = [
        [
            moment_text(each.created_at) if not each.damage else "-",
            each.job_id[:12] or "-",
            each.job_name or "-",
            size_text(each.size_bytes),
            each.path,
            *([each.damage or "-"] if damaged else []),
        ]
        for each in savepoints
    ]
    head = ["TAKEN", "JOB", "NAME", "SIZE", "PATH", *(["CANNOT BE USED"] if damaged else [])]
    # Savepoints differ in the last part of their paths.
    return stdout_table(head, rows, shorten=(2, 5) if damaged else (2,), ends=(4,))


def manifest_text(path: str, manifest: SavepointManifest) -> str:
    lines = [
        ("path", path),
        ("kind", manifest.kind),
        ("job", f"{manifest.job_id} ({manifest.job_name})"),
        ("owner", manifest.owner or "not known"),
        ("taken", moment_text(manifest.created_at)),
        ("versions", f"Stoker {manifest.stoker_version}, Spark {manifest.spark_version}"),
        ("content", f"{len(manifest.files)} files, {size_text(manifest.size)}"),
    ]
    head = "\n".join(f"{name + ':':<10} {value}" for name, value in lines)
    return "\n\n".join([head, *(_query_text(query) for query in manifest.queries)])


def _query_text(query: SavedQuery) -> str:
    at = "nothing committed yet" if query.batch_id is None else f"batch {query.batch_id}"
    lines = [f"query {query.region}: {at}"]
    if query.pending:
        lines.append("  the next batch was planned and will be repeated as planned")
    if query.watermark_ms:
        lines.append(f"  watermark: {moment_text(query.watermark_ms)}")
    lines += [
        f"  source {number}: {offset or 'nothing read yet'}"
        for number, offset in enumerate(query.offsets)
    ]
    lines += [
        f"  state of {operator.name}: {operator.partitions} partitions, {query.state_provider}"
        for operator in query.operators
    ]
    return "\n".join(lines)


def checkpoints_text(checkpoints: Checkpoints) -> str:
    counts = checkpoints.counts
    head = f"{counts.completed} completed, {counts.failed} failed, {counts.in_progress} in progress"
    if checkpoints.restored is not None:
        head += f"; started from {checkpoints.restored.path}"
    rows = [_row(entry) for entry in checkpoints.history]
    columns = ["ID", "KIND", "STATUS", "STARTED", "TOOK", "QUERY", "BATCH", "ROWS", "STATE"]
    return f"{head}\n\n{stdout_table(columns, rows, shorten=(5, 8))}" if rows else head


def _row(entry: CheckpointEntry) -> list[str]:
    figures = entry.figures
    took = "-" if entry.ended_at is None else duration_text(entry.ended_at - entry.at)
    return [
        str(entry.id),
        entry.kind.value.lower(),
        entry.status.value.lower(),
        moment_text(entry.at),
        took,
        entry.region or entry.path or entry.failure or "-",
        "-" if figures is None else str(figures.batch_id),
        "-" if figures is None else str(figures.rows),
        "-" if figures is None else f"{figures.state_rows} rows, {size_text(figures.state_bytes)}",
    ]


def examination_text(examination: Examination) -> str:
    kind = "savepoint" if examination.is_savepoint else "checkpoint"
    lines = [f"{kind} {examination.path}: {'undamaged' if examination.is_sound else 'DAMAGED'}"]
    lines += [f"  {words}" for words in examination.wrong_files]
    for query in examination.queries:
        good = "none" if query.last_good is None else f"batch {query.last_good}"
        last = "none" if query.last_commit is None else f"batch {query.last_commit}"
        lines.append(f"query {query.query}: last committed: {last}; last good: {good}")
        lines += [f"  {damage}" for damage in query.damages]
    return "\n".join(lines)
