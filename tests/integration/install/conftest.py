"""A fresh checkout, and a fresh environment of a newcomer in which Stoker is not installed."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from documents import ROOT, path_with
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import processes_of

PARTS = ("src", "examples", "scripts", "pyproject.toml", "README.md", "LICENSE")
PAGE = "src/stoker/web/static/index.html"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the wheel is built from, without anything that was built or run.

    The web page is already there: Node.js and its packages, which build it, come over the network.
    """
    folder = tmp_path_factory.mktemp("checkout")
    for part in PARTS:
        if (ROOT / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "data", "out")
            shutil.copytree(ROOT / part, folder / part, ignore=ignored)
        else:
            shutil.copy(ROOT / part, folder / part)
    if not (folder / PAGE).exists():
        (folder / PAGE).parent.mkdir(exist_ok=True)
        (folder / PAGE).write_text("<!doctype html><title>Not built for this test</title>")
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Variables of a shell with a fresh virtual environment in which Stoker is not installed."""
    folder = tmp_path_factory.mktemp("new")
    make_environment(folder / "venv")
    home = folder / "home"
    home.mkdir()
    yield {
        "PATH": path_with(folder / "venv" / "bin"),
        "HOME": str(home),
        "TMPDIR": str(home),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
    }
    directory = home / ".stoker" / "local"
    LocalCluster(directory).stop()
    assert processes_of(directory) == []


def make_environment(folder: Path) -> None:
    """Make a virtual environment that finds the packages on which Stoker depends, but not Stoker.

    They are those of the environment of the tests, so that pip needs no network.
    """
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    packages = Path(sysconfig.get_path("purelib"))
    own = folder / packages.relative_to(sys.prefix)
    for path in packages.iterdir():
        if "stoker" not in path.name and not (own / path.name).exists():
            (own / path.name).symlink_to(path)
