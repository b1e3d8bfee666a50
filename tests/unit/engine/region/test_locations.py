"""Where results and checkpoints are stored, and how Spark writes them there."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.ids import safe_name
from stoker.engine.region.locations import (
    FILE_MANAGER,
    checkpoint_directory,
    choose_file_manager,
    directory_below,
)


@given(first=st.text(), second=st.text())
def test_different_vertices_never_share_a_directory(first: str, second: str) -> None:
    assert (safe_name(first) == safe_name(second)) == (first == second)
    assert re.fullmatch(r"[A-Za-z0-9_-]*", safe_name(first))


def test_a_directory_is_local_when_its_url_says_so() -> None:
    assert directory_below("file:///a%20b", "v").local == Path("/a b/v")
    assert directory_below("/a", "v").local == Path("/a/v")
    assert directory_below("s3://bucket/x/", "v").local is None
    assert directory_below("s3://bucket/x/", "v").url == "s3://bucket/x/v"


class FakeSession:
    """A session that has only settings."""

    def __init__(self, **settings: str) -> None:
        self.conf = self
        self.settings = settings

    def get(self, key: str, default: Any) -> Any:
        return self.settings.get(key, default)

    def set(self, key: str, value: str) -> None:
        self.settings[key] = value


@pytest.mark.parametrize("root", ["/storage/checkpoints", "file:///storage/checkpoints"])
def test_a_local_checkpoint_uses_the_file_system_manager(root: str) -> None:
    session = FakeSession()
    choose_file_manager(session, checkpoint_directory(root, "out"))
    assert session.settings[FILE_MANAGER].endswith(".FileSystemBasedCheckpointFileManager")


@pytest.mark.parametrize("root", ["hdfs://name/checkpoints", "s3a://bucket/checkpoints"])
def test_other_stores_keep_the_default_of_spark(root: str) -> None:
    session = FakeSession()
    choose_file_manager(session, checkpoint_directory(root, "out"))
    assert session.settings == {}


def test_a_setting_of_the_user_is_kept() -> None:
    session = FakeSession(**{FILE_MANAGER: "org.example.Own"})
    choose_file_manager(session, checkpoint_directory("/storage/checkpoints", "out"))
    assert session.settings == {FILE_MANAGER: "org.example.Own"}
