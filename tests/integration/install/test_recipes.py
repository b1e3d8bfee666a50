"""The recipes of the page on operations, in their order, on a cluster with a running stream."""

from pathlib import Path

import pytest

from documents import ROOT, commands_of, run_in_one_shell
from stoker.processes.local.cluster import LocalCluster

pytestmark = pytest.mark.timeout(600)

PAGE = ROOT / "docs" / "operations.md"
PREPARE = """
pip install ".[cluster,java]"
stoker cluster up --rest-port 0 --slots 2
stoker init shop
(cd shop && stoker run -d visits.py)
stoker checkpoint trigger visits
"""
DAMAGE = """
echo "import time; time.sleep(600)" > sleeps.py
JOB=$(stoker run -d sleeps.py)
stoker cluster down
for graph in "$STOKER_HOME"/local/storage/jobs/"$JOB"/graph/*; do echo damaged > "$graph"; done
stoker cluster up
until stoker quarantine list | grep "$JOB"; do sleep 1; done
"""
SHOW_ALL = """
until stoker list | grep 'visits .* 1/1 running'; do sleep 1; done
stoker list --all
stoker quarantine list
"""


def test_every_recipe_works_as_written_and_the_stream_survives_all_of_them(
    checkout: Path, environment: dict[str, str]
) -> None:
    home = Path(environment["HOME"]) / ".stoker"
    *before, quarantined, dropped = commands_of(PAGE)
    assert len(before) == 8
    commands = [PREPARE, *before, DAMAGE, quarantined, dropped, SHOW_ALL]
    variables = environment | {"STOKER_HOME": str(home)}
    try:
        output = run_in_one_shell(commands, checkout, variables, timeout=540)
    finally:
        for directory in (home, checkout / "moved"):
            if directory.exists():
                LocalCluster(directory / "local").stop()
    *_, last = output.partition("+ stoker list --all")
    assert "sleeps" in last
    assert "FAILED" in last
    assert "No job is in quarantine." in last
