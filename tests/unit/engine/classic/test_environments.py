"""Environments of jobs: requirements that are refused, and environments as one file."""

import tarfile
from pathlib import Path

import pytest

from stoker.engine.classic.environments import pack, relative_paths, remove_packed


@pytest.mark.parametrize(
    "line",
    [
        "./dist/thing-1.0-py3-none-any.whl",
        "../thing",
        "dist/thing-1.0.tar.gz ; python_version > '3'",
        "-r more.txt",
        "--constraint=limits.txt",
        "-e .",
    ],
)
def test_a_relative_path_is_named_with_its_line(line: str) -> None:
    [told] = relative_paths(f"# what it needs\nrequests==2.31\n{line}\n")
    assert told.startswith("line 3: ")
    assert told.removeprefix("line 3: ") in line.replace("=", " ", 1)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# ./a comment",
        "requests[socks]>=2.31  # ./not a path",
        "/shared/thing-1.0-py3-none-any.whl",
        "https://example.org/thing-1.0-py3-none-any.whl",
        "thing @ file:///shared/thing-1.0-py3-none-any.whl",
        "-r /shared/more.txt",
        "--index-url https://example.org/simple",
        "--no-deps",
    ],
)
def test_absolute_paths_and_urls_are_accepted(line: str) -> None:
    assert relative_paths(line) == []


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
