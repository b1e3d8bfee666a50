"""Where the local clusters of this user leave their savepoints."""

from stoker.processes.local.cluster import SAVEPOINTS, LocalCluster
from stoker.processes.local.cluster_state import default_directory, home_directory
from stoker.savepoints.options import SAVEPOINT_DIRECTORY


def local_savepoint_directories() -> list[str]:
    """That of the local cluster, as last started, and that of clusters for one command."""
    directory = default_directory()
    last = LocalCluster(directory).last_start
    configured = last.settings.get(SAVEPOINT_DIRECTORY) if last else None
    return [configured or str(directory / SAVEPOINTS), str(home_directory() / SAVEPOINTS)]
