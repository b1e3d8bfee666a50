"""Which of Spark's file managers writes a checkpoint."""

from typing import Any

import pytest

from stoker.engine.region.locations import FILE_MANAGER, checkpoint_directory, choose_file_manager


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
