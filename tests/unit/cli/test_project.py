"""`stoker init`: the project is complete, and nothing is overwritten."""

import json
import subprocess
import sys
from pathlib import Path

from stoker.cli.project import FILES
from unit.cli.conftest import Stoker


def test_the_project_is_written_and_its_jobs_are_valid(stoker: Stoker) -> None:
    result = stoker("init", "shop", "--json")
    assert json.loads(result.stdout)["files"] == list(FILES)
    for job in ("orders.py", "visits.py"):
        shown = stoker("info", Path("shop") / job)
        assert shown.exit_code == 0, shown.output
    assert stoker("config", "--config", "shop/stoker.yml").exit_code == 0


def test_no_file_is_overwritten(stoker: Stoker) -> None:
    Path("orders.py").write_text("mine")
    result = stoker("init")
    assert result.exit_code == 1
    assert "already has orders.py" in result.stderr
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["orders.py"]


def test_the_command_that_is_printed_works_in_a_shell(stoker: Stoker) -> None:
    command = json.loads(stoker("init", "my shop", "--json").stdout)["command"]
    checked = command.replace(" run ", " info ")
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    shown = subprocess.run(
        ["sh", "-c", checked], env=path, capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("orders  (batch)")
