"""Environments of jobs as one file."""

import tarfile
from pathlib import Path

from stoker.engine.classic.environments import pack, remove_packed


def test_an_environment_is_packed_once_and_completely(tmp_path: Path) -> None:
    environment = tmp_path / "0123"
    (environment / "leaves").mkdir(parents=True)
    (environment / "leaves" / "__init__.py").write_text("COLOUR = 'green'\n")
    archive = pack(environment)
    made = archive.stat()
    assert pack(environment) == archive
    assert archive.stat() == made
    with tarfile.open(archive) as tar:
        assert "leaves/__init__.py" in tar.getnames()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0123", "0123.tar"]


def test_removing_an_archive_also_removes_unfinished_ones_and_no_others(tmp_path: Path) -> None:
    for name in ("0123.tar", "0123.x.tar.partial", "0123.lock", "4567.tar"):
        (tmp_path / name).touch()
    remove_packed(tmp_path / "0123")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0123.lock", "4567.tar"]
