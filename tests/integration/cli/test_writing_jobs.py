"""Every file and every command of the page on writing jobs, on the cluster of this folder."""

import sys
from pathlib import Path

import pytest

from documents import ROOT, blocks_of, commands_of, path_with, run_in_one_shell, save_files
from integration.cli.conftest import CommandLine

PAGE = ROOT / "docs" / "writing-jobs.md"
pytestmark = pytest.mark.timeout(600)

PROGRAMS = Path(sys.executable).parent


@pytest.fixture
def followed(stoker: CommandLine, tmp_path: Path, no_leftovers: None) -> str:
    """The output of all commands of the page, in a folder with all of its files."""
    save_files(PAGE, tmp_path)
    # A wheel is built without the network.
    pip = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    environment = stoker.environment | pip | {"PATH": path_with(PROGRAMS)}
    return run_in_one_shell(commands_of(PAGE), tmp_path, environment, timeout=540)


def test_every_command_of_the_page_works_as_written(followed: str) -> None:
    expected = [
        '{"country":"AT","revenue":75.0}',  # stoker run orders.py --param limit=1
        '{"revenue":4.0}',  # stoker run revenue.yml --param country=CH
        '{"kind":3,"n":2}',  # stoker run top.sql --param least=2
        "3,27",  # cat cubes.csv
        "pi is about 3.",
        "CH,4.28",  # stoker run converted.py
        "CH,4.8",  # stoker run gross.py
        "in all: 600.0",  # stoker run receipt.py
        "FINISHED FINISHED",  # python submit_both.py
        "transform 'doubled'",  # stoker info broken.py
    ]
    assert [text for text in expected if text not in followed] == []


def test_every_file_of_the_page_is_used() -> None:
    files = [block.title for block in blocks_of(PAGE) if block.title]
    assert len(files) == len(set(files))
    used = "\n".join(block.text for block in blocks_of(PAGE))
    # The files of a package are used by the name of their folder.
    names = {name: (name, Path(name).stem, f"./{Path(name).parent}") for name in files}
    assert [name for name, ways in names.items() if not any(way in used for way in ways)] == []
