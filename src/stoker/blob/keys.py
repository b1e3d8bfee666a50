"""Names of artifacts in the storage: the job and the SHA-256 of their content."""

import re

from stoker.core.errors import InvalidInput
from stoker.core.ids import BlobKey, JobId, is_hex_id

FOLDER = "blobs"

_SHA256 = re.compile(r"[0-9a-f]{64}")


def blob_key(sha256: str) -> BlobKey:
    """The key of content with this digest; InvalidInput when it is not a digest."""
    if not _SHA256.fullmatch(sha256):
        raise InvalidInput(
            f"{sha256!r} is not a SHA-256 digest; 64 lower-case hexadecimal digits are expected"
        )
    return BlobKey(sha256)


def folder_of(job_id: JobId) -> str:
    # Both parts of a path come from clients, so check both.
    if not is_hex_id(job_id):
        raise InvalidInput(
            f"{job_id!r} is not a job id; 32 lower-case hexadecimal digits are expected"
        )
    return f"{FOLDER}/{job_id}"


def path_of(job_id: JobId, key: BlobKey) -> str:
    return f"{folder_of(job_id)}/{blob_key(key)}"


def described(job_id: JobId, key: BlobKey, name: str) -> str:
    """The artifact as named in messages."""
    return f"artifact {name or key[:12]} of job {job_id} (key {key})"
