"""How a Spark server is told to start `stoker_python_daemon` for its Python workers."""

import os
from pathlib import Path

_DAEMON = "stoker_python_daemon"


def worker_properties(master: str) -> dict[str, str]:
    """None for a Spark whose executors are elsewhere: the module may not be there."""
    return {"spark.python.daemon.module": _DAEMON} if _has_workers_here(master) else {}


def worker_environment(master: str, python_path: str) -> dict[str, str]:
    """The server's PYTHONPATH, which its Python workers inherit, with the folder of the daemon."""
    if not _has_workers_here(master):
        return {}
    folder = str(Path(__file__).parent / "python_worker")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (python_path, folder)))}


def _has_workers_here(master: str) -> bool:
    return master.startswith("local")
