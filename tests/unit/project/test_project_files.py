"""The files that make a clone work on a fresh machine."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOCK = ROOT / "requirements" / "lock.txt"
BUILD = ROOT / "requirements" / "build.txt"
WEB = ROOT / "requirements" / "web.txt"
CLUSTER = ROOT / "requirements" / "cluster.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(path: Path) -> dict[str, set[str]]:
    """Locked versions by name; a universal lock may have one for each Python version."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(
        r"^([\w.-]+)(?:\[[\w,]+\])?==([^\s;]+)", path.read_text(), re.M
    ):
        found.setdefault(name.lower().replace("_", "-"), set()).add(version)
    return found


def requirement_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", each)[0].lower().replace("_", "-") for each in requirements}


@pytest.mark.parametrize("path", [LOCK, BUILD, CLUSTER, WEB])
def test_every_line_of_a_lock_is_pinned_by_hash_and_names_no_host(path: Path) -> None:
    text = path.read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    assert entries
    for entry in entries:
        assert re.match(r"[\w.-]+(\[[\w,]+\])?==", entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_the_lock_has_every_requirement_of_the_project() -> None:
    project = PROJECT["project"]
    wanted = requirement_names(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted |= requirement_names(extra)
    for group in PROJECT["dependency-groups"].values():
        wanted |= requirement_names(group)
    assert wanted - pins(LOCK).keys() - pins(WEB).keys() == set(), "run: make lock"


@pytest.mark.parametrize("path", [BUILD, CLUSTER])
def test_the_smaller_locks_agree_with_the_whole_lock(path: Path) -> None:
    whole = pins(LOCK)
    assert {name: whole.get(name) for name in pins(path)} == pins(path), "run: make lock"


def test_the_lock_of_a_cluster_has_what_stoker_needs_and_no_tools_of_developers() -> None:
    project = PROJECT["project"]
    wanted = requirement_names(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted |= requirement_names(extra)
    assert wanted <= pins(CLUSTER).keys(), "run: make lock"
    tools = requirement_names(PROJECT["dependency-groups"]["dev"]) - wanted
    assert not tools & pins(CLUSTER).keys()


def test_the_build_system_is_in_the_lock_since_nothing_is_built_in_isolation() -> None:
    wanted = requirement_names(PROJECT["build-system"]["requires"])
    assert wanted <= pins(BUILD).keys() | pins(WEB).keys()


def test_make_alone_lists_the_targets() -> None:
    # The variables of an outer make would turn this make into its child.
    environment = {"PATH": os.environ["PATH"]}
    shown = subprocess.run(
        ["make", "--no-print-directory"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    listed = re.findall(r"^  make (\S+) +\S", shown, re.M)
    wanted = "help venv demo test check lint types layers unit simulation integration bench docs"
    assert set(f"{wanted} lock clean".split()) <= set(listed)


@pytest.mark.parametrize("script", [".ci/run", "scripts/make-venv", "scripts/lock"])
def test_scripts_are_executable_and_stop_at_the_first_error(script: str) -> None:
    path = ROOT / script
    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in path.read_text()


def make_venv(tmp_path: Path, pythons: dict[str, str], **variables: str) -> str:
    """The error message of the script on a machine that has only these Pythons."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname", "env"):
        found = next(
            Path(folder, name)
            for folder in os.environ["PATH"].split(":")
            if Path(folder, name).exists()
        )
        (programs / name).symlink_to(found)
    for name, body in pythons.items():
        (programs / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (programs / name).chmod(0o755)
    outcome = subprocess.run(
        [ROOT / "scripts" / "make-venv", tmp_path / "venv"],
        env={"PATH": str(programs), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert not (tmp_path / "venv").exists()
    return outcome.stderr


def test_the_error_without_a_recent_python_says_which_is_needed(tmp_path: Path) -> None:
    assert "Python 3.11 or newer is needed" in make_venv(tmp_path, {"python3": "exit 1"})


def test_the_error_names_a_chosen_python_that_is_too_old(tmp_path: Path) -> None:
    message = make_venv(tmp_path, {"mine": "exit 1"}, PYTHON="mine")
    assert "was not found at PYTHON=mine" in message


def test_the_error_for_a_python_without_venv_says_what_to_install(tmp_path: Path) -> None:
    without = "[[ $2 != *venv* ]]"
    message = make_venv(tmp_path, {"python3": without})
    assert "lacks the venv or ensurepip module" in message
    assert "python3-venv" in message


def test_the_licence_is_the_whole_apache_2_0() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_tests_and_benchmarks_are_controlled_by_variables_that_stoker_does_not_know() -> None:
    """A process refuses to start with a `STOKER_` variable that is no option, and inherits all."""
    read = re.compile(r"""environ(?:\.get\(|\[)\s*["'](STOKER_\w+)""")
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("tests", "bench")
        for path in (ROOT / folder).rglob("*.py")
        for name in read.findall(path.read_text())
    }
    assert found == set()
