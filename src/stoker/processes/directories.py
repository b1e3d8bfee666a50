"""The directories of a process, and which of them outlive it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.config.processes import DEFAULT_HOME, ClusterOptions, ProcessOptions
from stoker.core.errors import StartupFailed
from stoker.core.ids import ResourceId


@dataclass(frozen=True, kw_only=True)
class Directories:
    work: Path
    """Working directory of this process; no other process writes there."""
    logs: Path


@contextmanager
def directories_for(
    resource_id: ResourceId,
    options: ProcessOptions,
    *,
    is_permanent: bool,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[Directories]:
    """Create the directories of a process and clean them up at its end.

    A permanent id returns, so its directory stays for the next instance. A drawn id is never used
    again, so only its logs stay. After the end of the whole cluster every id counts as drawn.
    """
    directories = _make_directories(resource_id, options)
    try:
        yield directories
    finally:
        if not is_permanent or is_over():
            _remove_all_but_logs(directories)


def _remove_all_but_logs(directories: Directories) -> None:
    """A drawn id never returns, so no later process would find the rest."""
    for path in directories.work.iterdir():
        if path == directories.logs and any(path.iterdir()):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if not any(directories.work.iterdir()):
        directories.work.rmdir()


def _make_directories(resource_id: ResourceId, options: ProcessOptions) -> Directories:
    base = (options.working_dir or DEFAULT_HOME / "work").expanduser().absolute()
    work = base / resource_id
    logs = (options.log_dir or work / "log").expanduser().absolute()
    for directory in (work, logs):
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StartupFailed(
                f"the directory {directory} cannot be used: {error.strerror}; make it writable or "
                "set process.working-dir to another one",
                path=str(directory),
            ) from error
    return Directories(work=work, logs=logs)


def storage_url(options: ClusterOptions) -> str:
    if options.storage is None:
        return str((DEFAULT_HOME / "storage").expanduser().absolute())
    if "://" in options.storage:
        return options.storage
    return str(Path(options.storage).expanduser().absolute())


def coordinator_url(options: ClusterOptions) -> str:
    """The configured coordinator; by default the embedded one below the storage directory."""
    if options.high_availability is not None:
        return options.high_availability
    storage = storage_url(options).removeprefix("file://")
    if "://" in storage:
        raise StartupFailed(
            f"the storage {storage} is not on this machine, so it cannot hold the embedded "
            "coordinator; set high-availability to zookeeper://HOST:PORT,…/ROOT or embedded:///DIRECTORY"
        )
    return f"embedded://{Path(storage) / 'coordinator'}"
