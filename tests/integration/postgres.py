"""A real PostgreSQL for the duration of a test."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server in a directory with a short path, for its socket; yields its URL."""
    pgserver = pytest.importorskip("pgserver", reason="has no wheel for this version of Python")
    with tempfile.TemporaryDirectory(prefix="stoker-pg-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
