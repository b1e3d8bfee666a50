"""Calls with which the REST server inspects any process: metrics, threads and log files."""

from typing import Protocol

from stoker.core.values import Value
from stoker.metrics.registry import MetricFamily

INSPECTION = "inspection"


class LogListing(Value):
    """The log files of one process."""

    files: tuple["LoggedFile", ...] = ()
    main_log: str | None = None
    """Name of the file to which the process logs."""
    main_output: str | None = None
    """Name of the file to which the process prints."""


class LoggedFile(Value):
    name: str
    size: int
    modified: int
    """Milliseconds since 1970."""


class InspectionGateway(Protocol):
    """Not fenced, because it changes nothing."""

    async def metrics(self) -> list[MetricFamily]:
        """Everything that the process measures, at this moment."""
        ...

    async def threads(self) -> dict[str, str]:
        """The stack of each thread, by the name of the thread."""
        ...

    async def logs(self) -> LogListing: ...

    async def read_log(self, name: str, offset: int, length: int) -> bytes:
        """Bytes from the offset on, empty at the end. NotFound for a file that is not listed."""
        ...
