"""The README as a newcomer follows it: a fresh directory, a fresh environment, every command."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from documents import ROOT, commands_of, path_with, run_in_one_shell, save_files
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import processes_of

pytestmark = pytest.mark.timeout(600)

README = ROOT / "README.md"
PARTS = ("src", "examples", "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the wheel is built from, without anything that was built or run."""
    folder = tmp_path_factory.mktemp("checkout")
    for part in PARTS:
        if (ROOT / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "data", "out")
            shutil.copytree(ROOT / part, folder / part, ignore=ignored)
        else:
            shutil.copy(ROOT / part, folder / part)
    return folder


@pytest.fixture(scope="module")
def environment(
    tmp_path_factory: pytest.TempPathFactory, checkout: Path
) -> Iterator[dict[str, str]]:
    """Variables of a shell with a fresh virtual environment in which Stoker is not installed.

    It finds the packages that Stoker depends on in the environment of the tests, so that pip needs
    no network; Stoker itself it does not find there.
    """
    folder = tmp_path_factory.mktemp("new")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    packages = Path(sysconfig.get_path("purelib"))
    own = folder / "venv" / packages.relative_to(sys.prefix)
    link_packages(packages, own)
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


def link_packages(source: Path, target: Path) -> None:
    for path in source.iterdir():
        if "stoker" not in path.name and not (target / path.name).exists():
            (target / path.name).symlink_to(path)


def test_every_command_of_the_readme_works_as_written(
    checkout: Path, environment: dict[str, str]
) -> None:
    install, *use = commands_of(README)
    # The file is saved where the reader stands when the README shows it.
    save_files(README, checkout)
    save = f"cp {checkout}/words.py ."
    first, *rest = use
    commands = [install, "unset PIP_NO_INDEX", first, save, *rest]
    output = run_in_one_shell(commands, checkout, environment, timeout=540)
    assert "country,revenue" in output
    assert "(words) FINISHED" in output
    assert "The local cluster has stopped." in output


def test_the_demo_runs_from_an_installed_wheel(
    checkout: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    commands = [f"pip install {checkout}", "stoker demo > demo.txt", "cat demo.txt"]
    output = run_in_one_shell(commands, tmp_path, environment, timeout=540)
    assert "still the same run" in output
    # The last words of the demo are a command that works as printed.
    following = (tmp_path / "demo.txt").read_text().splitlines()[-1]
    run_in_one_shell(
        [following, "stoker info my-project/orders.py"], tmp_path, environment, timeout=60
    )
