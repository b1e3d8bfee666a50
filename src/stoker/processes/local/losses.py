"""What is lost with the directory of a local cluster: jobs that have not ended, and checkpoints.

Read from the storage alone, so that a cluster which does not run can be asked as well.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from stoker.savepoints.manifest import MANIFEST
from stoker.savepoints.retained import FOLDER

_STORAGE = "storage"


@dataclass(frozen=True, kw_only=True)
class UnendedJob:
    job_id: str
    name: str
    """Empty if the graph of the job cannot be read."""
    has_checkpoint: bool


@dataclass(frozen=True, kw_only=True)
class Losses:
    jobs: tuple[UnendedJob, ...] = ()
    checkpoints: tuple[Path, ...] = ()
    """Checkpoints that ended jobs have left in the storage of the cluster."""


def find_losses(directory: Path) -> Losses:
    """The jobs whose graphs are still stored: a job that has ended has none any more."""
    storage = directory / _STORAGE
    graphs = sorted(storage.glob("jobs/*/graph/*.json"))
    by_job = {graph.parent.parent: graph for graph in graphs}
    return Losses(
        jobs=tuple(
            UnendedJob(
                job_id=folder.name,
                name=_name_in(graph),
                has_checkpoint=any(folder.glob("checkpoints/*")),
            )
            for folder, graph in by_job.items()
        ),
        checkpoints=tuple(
            manifest.parent for manifest in sorted(storage.glob(f"{FOLDER}/*/{MANIFEST}"))
        ),
    )


def _name_in(graph: Path) -> str:
    try:
        content = json.loads(graph.read_bytes())
    except (OSError, ValueError):
        return ""
    return str(content.get("name", "")) if isinstance(content, dict) else ""
