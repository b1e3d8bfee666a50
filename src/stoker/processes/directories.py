"""The directories of a cluster and of its processes: where they are, who may use them, what stays.

Whoever may write in them commands the cluster, and whoever may read there learns the secrets of its
jobs. So they are for one user alone: see `_claim`.
"""

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from stoker.config.processes import DEFAULT_HOME, ClusterOptions, ProcessOptions
from stoker.core.errors import StartupFailed
from stoker.core.ids import ResourceId
from stoker.osproc.plain_name import plain_name_of
from stoker.osproc.private_files import Exposure, claim_directory
from stoker.security.cluster_secret import FILE_NAME as SECRET_FILE
from stoker.security.options import InternalSecurityOptions
from stoker.storage.open import local_directory

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Directories:
    work: Path
    """Working directory of this process; no other process writes there.

    Its name is plain: Spark and Java get paths below it, and would misread a space or a comma."""
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
        with _with_plain_name(directories) as plain:
            yield plain
    finally:
        if not is_permanent or is_over():
            _remove_all_but_logs(directories)


@contextmanager
def _with_plain_name(directories: Directories) -> Iterator[Directories]:
    with ExitStack() as stack:
        try:
            work = stack.enter_context(plain_name_of(directories.work))
        except OSError as error:
            raise StartupFailed(
                f"the directory {directories.work} cannot be used: {error}; "
                "set process.working-dir to another one",
                path=str(directories.work),
            ) from error
        yield replace(directories, work=work)


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
    _claim(work, "process.working-dir", is_ours=True)
    _claim(logs, "process.log-dir", is_ours=options.log_dir is None)
    return Directories(work=work, logs=logs)


def claim_cluster_directories(options: ClusterOptions) -> None:
    """Make the directories of storage and embedded coordinator private, if they are here."""
    storage = local_directory(storage_url(options))
    if storage is not None:
        _claim(storage, "high-availability.storageDir", is_ours=options.storage is None)
    if options.high_availability is not None:
        parts = urlsplit(options.high_availability)
        if parts.scheme == "embedded" and not parts.netloc and len(parts.path) > 1:
            _claim(Path(unquote(parts.path)), "high-availability", is_ours=False)


def _claim(directory: Path, option: str, *, is_ours: bool) -> None:
    """Make the directory private; refuse one in which other users may write."""
    try:
        exposure = claim_directory(directory, is_ours=is_ours)
    except OSError as error:
        raise StartupFailed(
            f"the directory {directory} cannot be used: {error.strerror}; make it writable or "
            f"set {option} to another one",
            path=str(directory),
        ) from error
    if exposure is Exposure.WRITE:
        raise StartupFailed(
            f"every user of this machine may write in {directory}, and so command the cluster; "
            f"take that away (chmod o= {directory}) or set {option} to another directory",
            path=str(directory),
        )
    if exposure is Exposure.READ:
        log.warning(
            "every user of this machine may look into %s, where jobs, results and logs are; take "
            "that away: chmod o= %s",
            directory,
            directory,
        )


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
    storage = local_directory(storage_url(options))
    if storage is None:
        raise StartupFailed(
            f"the storage {options.storage} is not on this machine, so it cannot hold the embedded "
            "coordinator; set high-availability to zookeeper://HOST:PORT,…/ROOT or embedded:///DIRECTORY"
        )
    return f"embedded://{quote(str(storage / 'coordinator'))}"


def secret_file(options: ClusterOptions, security: InternalSecurityOptions) -> Path:
    """The file with the secret of the cluster, beside its records if these are on this machine."""
    if security.secret is not None:
        return security.secret.expanduser()
    directory = local_directory(storage_url(options)) or DEFAULT_HOME.expanduser()
    return directory / SECRET_FILE
