"""What the REST server asks of any process: what it does, uses and logs."""

from typing import Protocol

from stoker.core.values import Value

INSPECTION = "inspection"


class LogListing(Value):
    """Names of one process's log files with their sizes."""

    files: tuple["LoggedFile", ...] = ()
    main_log: str | None = None
    """The one that gets what the process logs."""
    main_output: str | None = None
    """The one that gets what the process prints."""


class LoggedFile(Value):
    name: str
    size: int
    modified: int
    """Milliseconds since 1970."""


class InspectionGateway(Protocol):
    """Not fenced: it changes nothing."""

    async def figures(self) -> dict[str, float]: ...

    async def threads(self) -> dict[str, str]:
        """By the name of each thread, what it does."""
        ...

    async def logs(self) -> LogListing: ...

    async def read_log(self, name: str, offset: int, length: int) -> bytes:
        """A piece from there on, empty at the end; NotFound for a file that is not listed."""
        ...
