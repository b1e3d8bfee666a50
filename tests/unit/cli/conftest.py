import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stoker.cli.main import cli
from stoker.testing.rest import Master

Stoker = Callable[..., Result]


@pytest.fixture
def stoker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stoker:
    """Run commands with an empty working directory and an empty home directory."""
    for name in [name for name in os.environ if name.startswith("STOKER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "home"))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*arguments: str | Path) -> Result:
        return CliRunner().invoke(cli, [str(argument) for argument in arguments])

    return run


@dataclass
class ServedMaster:
    """A master on loopback with a dispatcher in memory, and commands that are sent to it."""

    master: Master
    url: str
    stoker: Stoker

    async def __call__(self, *arguments: str | Path) -> Result:
        return await asyncio.to_thread(self.stoker, "-m", self.url, *arguments)


@pytest.fixture
async def served(stoker: Stoker) -> AsyncIterator[ServedMaster]:
    master = Master()
    async with master.serving() as url:
        yield ServedMaster(master, url, stoker)
