"""A stream that ends in one way or another goes on when it is started again, with no option set."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pyarrow.dataset
import pytest

from builders import wait_until
from file_sink import committed_files
from integration.cli.conftest import CommandLine

PIPELINE = """
from stoker import Pipeline

numbers = Pipeline("{name}", parameters={{"trigger": "available-now"}})
numbers.source("raw", format="json", path="{root}/in", schema="n LONG", streaming=True)
numbers.sink("raw", name="copied", format="parquet", path="{root}/out", trigger="${{trigger}}")
"""
FOR_EVER = ("--param", "trigger=100 milliseconds")


class Numbers:
    """A streaming job that copies numbers, its input and its output."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written = 0
        (root / "in").mkdir(parents=True)
        self.file = root / "numbers_job.py"
        self.name = f"numbers-{root.parent.name}"
        self.file.write_text(PIPELINE.format(root=root, name=self.name))

    def write(self) -> None:
        unfinished = self.root / ".unfinished"
        unfinished.write_text("".join(f'{{"n": {self.written + n}}}\n' for n in range(3)))
        unfinished.rename(self.root / "in" / f"{self.written}.json")
        self.written += 3

    @property
    def is_caught_up(self) -> bool:
        """Whether a reader of the output sees every number, and none twice."""
        files = committed_files(self.root / "out")
        if not files:
            return False
        table = pyarrow.dataset.dataset(sorted(map(str, files)), format="parquet").to_table()
        return sorted(table.column("n").to_pylist()) == list(range(self.written))


@pytest.fixture
def numbers(tmp_path: Path) -> Numbers:
    made = Numbers(tmp_path / "numbers")
    made.write()
    return made


@pytest.mark.usefixtures("no_leftovers")
def test_a_job_that_finished_or_was_cancelled_goes_on(
    stoker: CommandLine, numbers: Numbers
) -> None:
    first = stoker("run", numbers.file)
    assert "it continues from" not in first.stderr
    assert numbers.is_caught_up

    numbers.write()
    second = stoker.submit(numbers.file, *FOR_EVER)
    wait_until(lambda: numbers.is_caught_up, "all input is in the output", 120)
    cancelled = stoker("cancel", second)
    assert "Its last checkpoint is kept" in cancelled.stderr
    kept = re.search(f"checkpoint is kept: (.*checkpoint-{second})", cancelled.stderr)
    assert kept is not None, cancelled.stderr
    path = kept[1]
    assert stoker("savepoint", "show", path, "--verify").returncode == 0

    numbers.write()
    third = stoker("run", numbers.file)
    assert f"it continues from the last checkpoint of that run: {path}" in third.stderr
    assert numbers.is_caught_up

    listed = json.loads(stoker("checkpoint", "list", "--json").stdout)
    mine = [each["path"] for each in listed if each["job_name"] == numbers.name]
    assert len(mine) == 3
    assert path in mine
    assert path in stoker("checkpoint", "list").stdout
    for each in mine:
        stoker("checkpoint", "dispose", each)
    assert numbers.name not in stoker("checkpoint", "list").stdout
    # Nothing is kept of the earlier run: what is left is to begin anew, here or elsewhere.
    refused = stoker("run", numbers.file, expect=1)
    output = refused.stderr + refused.stdout
    assert "SinkIsAhead" in output
    assert "if stoker checkpoint list or stoker savepoint list still shows one" in output
    shutil.rmtree(re.search(r"remove the directory (\S+) first", output)[1])  # type: ignore[index]
    stoker("run", numbers.file)
    assert numbers.is_caught_up


def test_a_job_that_may_not_continue_is_refused_with_the_way_on(
    stoker: CommandLine, numbers: Numbers
) -> None:
    stoker("run", numbers.file)
    numbers.write()
    alone = stoker("run", numbers.file, "--no-continue", expect=1)
    assert "SinkIsAhead" in alone.stderr + alone.stdout
    numbers.file.write_text(numbers.file.read_text().replace(numbers.name, "another"))
    other = stoker("run", numbers.file, expect=1)
    assert f"this one another; {numbers.root}/out holds the output of job" in other.stderr
    (command,) = [
        line.partition("nevertheless with ")[2]
        for line in other.stderr.splitlines()
        if "nevertheless with" in line
    ]
    words = shlex.split(command)
    assert words[:3] == ["stoker", "run", "-s"]
    stoker("run", "-s", words[3], numbers.file)
    assert numbers.is_caught_up


@pytest.mark.usefixtures("no_leftovers")
def test_savepoints_need_no_directory_on_a_local_cluster(
    stoker: CommandLine, numbers: Numbers
) -> None:
    """Also not those of an upgrade and of a rescale."""
    job = stoker.submit(numbers.file, *FOR_EVER)
    wait_until(lambda: numbers.is_caught_up, "all input is in the output", 120)
    saved = stoker.directory / "savepoints"
    taken = stoker("savepoint", job).stdout.strip()
    assert Path(taken).parent == saved
    upgraded = stoker("upgrade", job, numbers.file, *FOR_EVER, "--window", "1").stdout.strip()
    numbers.write()
    wait_until(lambda: numbers.is_caught_up, "all input is in the output", 120)
    rescaled = stoker("rescale", upgraded, "2").stdout.strip()
    numbers.write()
    wait_until(lambda: numbers.is_caught_up, "all input is in the output", 120)
    stopped = stoker("stop", rescaled).stdout.strip()
    assert Path(stopped).parent == saved
    listed = stoker("savepoint", "list").stdout
    assert taken in listed
    assert stopped in listed
    numbers.write()
    again = stoker("run", numbers.file)
    assert f"from the savepoint at the end of that run: {stopped}" in again.stderr
    assert numbers.is_caught_up
    for path in json.loads(stoker("savepoint", "list", "--json").stdout):
        stoker("savepoint", "dispose", path["path"])


@pytest.mark.timeout(400)
def test_a_job_without_a_standing_cluster_goes_on_as_well(
    tmp_path_factory: pytest.TempPathFactory, numbers: Numbers
) -> None:
    """The checkpoint outlives the cluster that was there for one command only."""
    stoker = CommandLine(tmp_path_factory.mktemp("home"))
    stoker("run", numbers.file)
    numbers.write()
    stoker("cluster", "up", "--rest-port", "0")
    try:
        again = stoker("run", numbers.file)
    finally:
        stoker("cluster", "down", "--purge", "--yes")
    assert "it continues from the last checkpoint of that run" in again.stderr
    assert str(stoker.home / "checkpoints") in again.stderr
    assert numbers.is_caught_up
