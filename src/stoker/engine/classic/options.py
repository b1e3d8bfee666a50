"""Options of the classic engine, and of the Python environments of its programs."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from stoker.core.errors import InvalidOption
from stoker.core.options import ByteSize, option

NO_INDEX = "no-index"
_INDEX_SCHEMES = ("http", "https", "file")


@dataclass(frozen=True, kw_only=True)
class ClassicOptions:
    engines: tuple[str, ...] = option(
        "taskmanager.engines",
        "Spark engines that run here: connect (shared, warm), classic (a driver for each task)",
        ("connect", "classic"),
    )
    warm_drivers: int = option(
        "taskmanager.classic.warm-drivers",
        "Spare drivers with a started JVM, about 600 MB each; each serves one task",
        1,
    )
    warm_at_start: bool = option(
        "taskmanager.classic.warm-at-start",
        "Start the first spare driver with the task executor, not when a job first needs one",
        False,
    )
    replenish_delay: timedelta = option(
        "taskmanager.classic.replenish-delay",
        "Pause before a used spare driver is replaced, so as not to slow down the job's start",
        timedelta(seconds=2),
    )
    heap: ByteSize = option(
        "taskmanager.memory.classic-heap",
        "Largest heap of a classic driver's JVM; a job's own spark.driver.memory wins",
        ByteSize(1024**3),
    )
    environment_timeout: timedelta = option(
        "python-environment.timeout",
        "How long the installation of a job's requirements may take",
        timedelta(minutes=10),
    )
    environments_kept: int = option(
        "python-environment.kept",
        "Installed environments kept for later jobs; the least recently used is removed first",
        20,
    )
    index_url: str | None = option(
        "python-environment.index-url",
        "Index from which the packages of all jobs come, as a URL; no-index: none, so that all "
        "come from python-environment.find-links. Unset: what pip and uv are configured to use.",
        None,
    )
    find_links: tuple[str, ...] = option(
        "python-environment.find-links",
        "Directories, or URLs of pages with links, where packages of all jobs are looked for.",
        (),
    )
    constraints: Path | None = option(
        "python-environment.constraints",
        "File with the versions that packages of all jobs may have, in the form of pip's "
        "constraints.",
        None,
    )
    source_distributions: bool = option(
        "python-environment.source-distributions",
        "Whether packages may be built from source code, which runs code of the package during "
        "the installation. Otherwise only wheels are installed.",
        True,
    )
    packages_only: bool = option(
        "python-environment.packages-only",
        "Whether the list of a job may name nothing but packages with their versions: no options, "
        "such as an index of its own, no paths and no URLs.",
        False,
    )

    def __post_init__(self) -> None:
        is_url = self.index_url is None or urlsplit(self.index_url).scheme in _INDEX_SCHEMES
        if not is_url and self.index_url != NO_INDEX:
            raise InvalidOption(
                "python-environment.index-url is the URL of an index, such as "
                "https://pypi.example.org/simple, or no-index",
                key="python-environment.index-url",
            )
        if self.index_url == NO_INDEX and not self.find_links:
            raise InvalidOption(
                "python-environment.index-url is no-index, so python-environment.find-links must "
                "say where packages are",
                key="python-environment.find-links",
            )
        is_decided = self.index_url is not None or self.constraints is not None
        if not self.packages_only and is_decided:
            raise InvalidOption(
                "a job's list of requirements could name another index and other versions than "
                "python-environment.index-url and .constraints: set "
                "python-environment.packages-only to true",
                key="python-environment.packages-only",
            )
