"""What the REST server needs from the rest of its process."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stoker.aio.clock import WallClock, system_wall_clock
from stoker.core.ids import BlobKey, Ids, JobId
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.rest.options import RestOptions

FindDispatcher = Callable[[], Awaitable[DispatcherGateway]]
"""The leading dispatcher; NoLeader, at once, when none is known."""


class JobBlobs(Protocol):
    """Where the files of a submitted job go."""

    async def put(self, job_id: JobId, sha256: str, size: int, local_path: Path) -> BlobKey:
        """Durable when this returns; the same content again is harmless."""
        ...

    async def delete_job(self, job_id: JobId) -> None:
        """Forget all files of a job that was refused."""
        ...


@dataclass(frozen=True, kw_only=True)
class RestServices:
    dispatcher: FindDispatcher
    blobs: JobBlobs
    leads: Callable[[], bool]
    """Whether this master leads, and so answers by itself."""
    leader_url: Callable[[], str | None]
    """Base URL of the leader's REST server, where requests go while this master does not lead."""
    options: RestOptions
    version: str
    clock: WallClock = system_wall_clock
    ids: Ids = field(default_factory=Ids)
