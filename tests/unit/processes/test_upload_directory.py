"""Where a master keeps the files of a request while it is handled."""

import os
from pathlib import Path

from stoker.processes.master import _with_upload_directory
from stoker.rest.options import RestOptions


def test_files_of_requests_are_in_the_private_directory_of_the_master(tmp_path: Path) -> None:
    """Nothing of a killed master is left there: only one process uses the directory."""
    left = tmp_path / "work" / "requests" / "stoker-upload-x"
    left.mkdir(parents=True)
    os.utime(left, (100.0, 100.0))
    options = _with_upload_directory(RestOptions(), tmp_path / "work")
    assert options.upload_directory == tmp_path / "work" / "requests"
    assert not left.exists()


def test_in_a_chosen_directory_requests_of_other_masters_stay(tmp_path: Path) -> None:
    for name, at in (("stoker-upload-old", 100.0), ("stoker-upload-new", None)):
        (tmp_path / name).mkdir()
        if at is not None:
            os.utime(tmp_path / name, (at, at))
    chosen = RestOptions(upload_directory=tmp_path)
    assert _with_upload_directory(chosen, tmp_path / "work") == chosen
    assert [path.name for path in tmp_path.iterdir()] == ["stoker-upload-new"]
