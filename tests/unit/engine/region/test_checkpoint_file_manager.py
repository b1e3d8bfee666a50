"""Which of Spark's ways writes a checkpoint."""

from typing import Any

import pytest

from stoker.engine.region.locations import FILE_MANAGER, checkpoint_directory, choose_file_manager


class FakeSession:
    """Its settings alone."""

    def __init__(self, **settings: str) -> None:
        self.conf = self
        self.settings = settings

    def get(self, key: str, default: Any) -> Any:
        return self.settings.get(key, default)

    def set(self, key: str, value: str) -> None:
        self.settings[key] = value


@pytest.mark.parametrize("root", ["/storage/checkpoints", "file:///storage/checkpoints"])
def test_a_directory_is_written_without_looking_for_links(root: str) -> None:
    session = FakeSession()
    choose_file_manager(session, checkpoint_directory(root, "out"))
    assert session.settings[FILE_MANAGER].endswith(".FileSystemBasedCheckpointFileManager")


@pytest.mark.parametrize("root", ["hdfs://name/checkpoints", "s3a://bucket/checkpoints"])
def test_other_stores_keep_spark_s_default(root: str) -> None:
    session = FakeSession()
    choose_file_manager(session, checkpoint_directory(root, "out"))
    assert session.settings == {}


def test_a_setting_of_the_user_is_kept() -> None:
    session = FakeSession(**{FILE_MANAGER: "org.example.Own"})
    choose_file_manager(session, checkpoint_directory("/storage/checkpoints", "out"))
    assert session.settings == {FILE_MANAGER: "org.example.Own"}
