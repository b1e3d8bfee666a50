"""Looking for a savepoint that does not exist leaves no files."""

import os
from pathlib import Path

import msgspec
import pytest

from stoker.core.errors import NotFound, UnusableSavepoint
from stoker.core.graph import Restore
from stoker.savepoints.catalog import dispose, list_savepoints
from stoker.savepoints.examination import examine
from stoker.savepoints.locations import SavepointServices, locate, read_manifest
from stoker.savepoints.restore import check_savepoint_of
from stoker.storage.memory import MemoryStorage
from stoker.testing.sample_jobs import new_graph

OPEN = SavepointServices().open_storage


async def test_looking_for_a_savepoint_creates_no_directory(tmp_path: Path) -> None:
    path = str(tmp_path / "typo" / "deep" / "savepoint-1")
    graph = msgspec.structs.replace(new_graph(), restore=Restore(path=path))
    looks = {
        "dispose": (dispose(path, OPEN, MemoryStorage()), UnusableSavepoint),
        "show": (read_manifest(locate(path, OPEN)), UnusableSavepoint),
        "verify": (examine(path, OPEN), NotFound),
        "run -s": (check_savepoint_of(graph, OPEN), UnusableSavepoint),
    }
    for name, (look, error) in looks.items():
        with pytest.raises(error, match=r"no such directory|nothing at") as raised:
            await look
        assert path in raised.value.message, name
    assert await list_savepoints(str(tmp_path / "typo"), OPEN) == []
    assert os.listdir(tmp_path) == []
