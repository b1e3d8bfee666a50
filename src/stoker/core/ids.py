"""Typed identifiers, the one place that makes new ones, and names that are safe as file names."""

import hashlib
import random
import re
from typing import NewType

JobId = NewType("JobId", str)
"""32 lower-case hexadecimal digits, chosen by the client or random."""
VertexName = NewType("VertexName", str)
RegionId = NewType("RegionId", str)
"""The name of the vertex at the region's end: its sink, or a materialized vertex."""
AttemptId = NewType("AttemptId", str)
AllocationId = NewType("AllocationId", str)
SessionId = NewType("SessionId", str)
"""New for each component and grant of leadership; half of a fencing token."""
ResourceId = NewType("ResourceId", str)
"""Names a process (master or task executor). A configured one survives a restart."""
InstanceId = NewType("InstanceId", str)
"""One run of a task executor process: after a restart it has another one."""
BlobKey = NewType("BlobKey", str)

_HEX_ID = re.compile(r"[0-9a-f]{32}")


def is_hex_id(text: str) -> bool:
    return _HEX_ID.fullmatch(text) is not None


def vertex_hex_id(job_id: JobId, vertex: str) -> str:
    """32-digit id of a vertex in REST answers, always the same for a job and a vertex name."""
    return hashlib.sha256(f"{job_id}/{vertex}".encode()).hexdigest()[:32]


class Ids:
    """Source of new identifiers. A simulation seeds it, so that a run can be repeated."""

    def __init__(self, randomness: random.Random | None = None) -> None:
        self.random: random.Random = randomness or random.SystemRandom()

    def _hex(self) -> str:
        return f"{self.random.getrandbits(128):032x}"

    def job(self) -> JobId:
        return JobId(self._hex())

    def attempt(self) -> AttemptId:
        return AttemptId(self._hex())

    def allocation(self) -> AllocationId:
        return AllocationId(self._hex())

    def session(self) -> SessionId:
        return SessionId(self._hex())

    def instance(self) -> InstanceId:
        return InstanceId(self._hex())

    def resource(self, kind: str) -> ResourceId:
        return ResourceId(f"{kind}-{self._hex()[:8]}")

    def nonce(self) -> str:
        return self._hex()


_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def safe_name(name: str) -> str:
    """Directory name for a vertex; two vertices never share one."""
    cleaned = _UNSAFE.sub("_", name)
    if cleaned == name:
        return name
    return f"{cleaned}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
