"""A savepoint as the REST API shows it."""

from stoker.api.shape import Answer
from stoker.savepoints.manifest import Manifest


class SavepointShown(Answer, frozen=True, kw_only=True):
    """GET /savepoints/show"""

    path: str
    size_bytes: int
    manifest: Manifest
