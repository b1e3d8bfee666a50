"""A second name for directories that other programs would misread."""

import os
import tempfile
from pathlib import Path

import pytest

from builders import ODD_NAME
from stoker.osproc import plain_name
from stoker.osproc.plain_name import plain_name_of


@pytest.fixture(autouse=True)
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which links are made."""
    folder = tmp_path / "links"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(plain_name, "_USUAL_FOLDERS", ())
    return folder


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    directory = tmp_path / f"{ODD_NAME}\\c 🙂"
    directory.mkdir()
    return directory


def test_a_plain_directory_keeps_its_name(tmp_path: Path, links: Path) -> None:
    with plain_name_of(tmp_path) as name:
        assert name == tmp_path
    assert list(links.iterdir()) == []


def test_another_one_has_a_plain_name_for_a_while(odd: Path, links: Path) -> None:
    with plain_name_of(odd) as name:
        (name / "file").write_text("x")
        assert plain_name._PLAIN.fullmatch(str(name))
    assert (odd / "file").read_text() == "x"
    assert list(links.iterdir()) == []


def test_the_link_of_a_killed_process_is_used_again(odd: Path, links: Path) -> None:
    with plain_name_of(odd) as first, plain_name_of(odd) as second:
        assert first == second
    assert list(links.iterdir()) == []


@pytest.mark.parametrize("owner", ["own", "other"])
def test_a_link_that_somebody_else_made_is_not_followed(
    odd: Path, links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    """Others can write into the folder of temporary files, and the name is no secret."""
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr(plain_name, "_USUAL_FOLDERS", (str(other),))
    with plain_name_of(odd) as name:
        taken = name.name
    (links / taken).symlink_to("/etc" if owner == "own" else odd)
    if owner == "other":
        us = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: us + 1)
        (links / taken).rename(links / taken.replace(f"-{us}-", f"-{us + 1}-"))
    with plain_name_of(odd) as name:
        assert name.parent == other
        assert name.resolve() == odd


def test_without_a_folder_for_links_the_reason_is_told(
    tmp_path: Path, odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(OSError, match="no link to it can be made in"), plain_name_of(odd):
        pass


def test_a_folder_in_which_others_could_replace_the_link_is_left_alone(
    odd: Path, links: Path
) -> None:
    """In a folder with the sticky bit, such as /tmp, they cannot."""
    links.chmod(0o777)
    with pytest.raises(OSError, match="no link to it can be made in"), plain_name_of(odd):
        pass
    links.chmod(0o1777)
    with plain_name_of(odd) as name:
        assert name.parent == links
