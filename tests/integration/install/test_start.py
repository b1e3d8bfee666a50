"""The page for platform teams, from the first look to a job that a team submits."""

import socket
from pathlib import Path

import pytest

from documents import ROOT, commands_of, run_in_one_shell, save_files
from integration.install.conftest import make_environment

pytestmark = pytest.mark.timeout(600)

PAGE = ROOT / "docs" / "start.md"
INSTALL = 'pip install ".[cluster,java]"'
END_SERVICES = "trap 'kill $(jobs -p) 2> ended.txt || true; wait' EXIT"
"""The page leaves it to the reader to end the processes that it starts in the background."""


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def test_every_command_of_the_page_works_as_written(
    checkout: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """Only the ports and the directories of the machine are others."""
    ports = free_ports(2)
    others = {
        "/opt/stoker": str(tmp_path / "opt"),
        "/etc/stoker": str(tmp_path / "etc"),
        "/var/lib/stoker": str(tmp_path / "var"),
        "8081": str(ports[0]),
        "8082": str(ports[1]),
    }

    def here(text: str) -> str:
        for name, other in others.items():
            text = text.replace(name, other)
        return text

    make_environment(tmp_path / "opt" / ".venv")
    (tmp_path / "etc").mkdir()
    for name in save_files(PAGE, tmp_path / "etc"):
        file = tmp_path / "etc" / name
        file.write_text(here(file.read_text()))
    commands = [here(command) for command in commands_of(PAGE)]
    output = run_in_one_shell(
        [INSTALL, END_SERVICES, *commands], checkout, environment, timeout=540
    )
    assert "still the same run" in output
    assert "stoker.yml:1" in output
    assert "(orders) FINISHED" in output
