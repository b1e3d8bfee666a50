"""The name by which the user can call the command again."""

import subprocess
import sys
from pathlib import Path

import pytest

from stoker.cli.command_name import own_command

SCRIPT = Path(sys.executable).parent / "stoker"


def test_a_command_on_the_path_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(SCRIPT.parent))
    assert own_command() == "stoker"


def test_a_command_that_is_not_on_the_path_is_called_by_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "stoker"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    command = own_command()
    assert command == str(SCRIPT)
    shown = subprocess.run(
        ["/bin/sh", "-c", f"{command} --version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("stoker ")
