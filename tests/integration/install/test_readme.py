"""The README as a newcomer follows it: a fresh directory, a fresh environment, every command."""

from pathlib import Path

import pytest

from documents import ROOT, commands_of, run_in_one_shell, save_files

pytestmark = pytest.mark.timeout(600)

README = ROOT / "README.md"


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
    """Outside of the checkout: nothing that the wheel lacks is found there."""
    commands = [
        f"pip wheel --no-deps {checkout}",
        "pip install --force-reinstall --no-deps ./stoker-*.whl",
        "python -c 'import stoker; print(stoker.__file__)'",
        "stoker --help",
        "stoker demo > demo.txt",
        "cat demo.txt",
    ]
    output = run_in_one_shell(commands, tmp_path, environment, timeout=540)
    assert str(checkout / "src") not in output
    assert "/venv/lib/" in output
    assert "run a job and watch it" in output
    assert "still the same run" in output
    # The last words of the demo are a command that works as printed.
    following = (tmp_path / "demo.txt").read_text().splitlines()[-1]
    run_in_one_shell(
        [following, "stoker info my-project/orders.py"], tmp_path, environment, timeout=60
    )
