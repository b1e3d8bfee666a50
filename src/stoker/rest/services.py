"""What the REST server needs from the rest of its process."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Protocol, cast

from stoker.aio.clock import WallClock, system_wall_clock
from stoker.core.ids import BlobKey, Ids, JobId
from stoker.gateways.inspection import InspectionGateway
from stoker.rest.http.asgi import Scope
from stoker.rest.job_list.snapshots import FindDispatcher, JobLooks, Look
from stoker.rest.options import RestOptions
from stoker.rest.programs.store import ProgramStore
from stoker.rest.requests.operations import Operations
from stoker.savepoints.locations import OpenStorage
from stoker.savepoints.options import SavepointOptions
from stoker.security.tokens import TokenFile
from stoker.storage.open import open_place

FindProcess = Callable[[str], Awaitable[InspectionGateway]]
"""What tells about the process that has an endpoint at this address."""


class JobBlobs(Protocol):
    """Where the files of a submitted job go: the part of the BlobServer that is needed here.

    A file is durable when the call returns; the same content again is harmless.
    """

    async def adopt(self, job_id: JobId, source: Path, *, sha256: str, size: int) -> BlobKey:
        """Takes a file over that was hashed when it was received; it may be gone afterwards."""
        ...

    async def put_file(self, job_id: JobId, source: Path, *, sha256: str) -> BlobKey:
        """Copies a file of another process, whose hash is checked."""
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
    tokens: TokenFile | None = None
    """Who may call; None lets everybody in who reaches this master."""
    trust: ssl.SSLContext | None = None
    """How this master calls another one over TLS."""
    ids: Ids = field(default_factory=Ids)
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Of this process, without secrets."""
    inspection: InspectionGateway | None = None
    """Tells about this process."""
    process_at: FindProcess | None = None
    programs: ProgramStore | None = None
    savepoints: SavepointOptions = SavepointOptions()
    """As the jobs' masters have them."""
    open_storage: OpenStorage = open_place
    """Where savepoints are."""
    looks: JobLooks = field(default_factory=JobLooks)
    operations: Operations = field(default_factory=lambda: Operations(timedelta(minutes=5)))

    async def look(self) -> Look:
        """At the jobs as they are now; NoLeader when nobody knows them."""
        return await self.looks.look(self.dispatcher, self.clock)


SERVICES = "stoker.services"
"""Where a request's ASGI scope has them."""


def services_in(scope: Scope) -> RestServices:
    """Of the server that a request has reached."""
    return cast("RestServices", scope[SERVICES])
