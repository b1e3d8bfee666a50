"""`stoker cluster logs`: the ends of the logs, and what is added to them."""

import json
from pathlib import Path

import pytest

from stoker.cli.cluster_logs import LogTail
from unit.cli.conftest import Stoker


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    directory = tmp_path / "home" / "local" / "log"
    directory.mkdir(parents=True)
    (directory / "master-1.log").write_text("".join(f"m{n}\n" for n in range(100)))
    (directory / "task-executor-1.log").write_text("t0\nt1\n")
    return directory


def test_the_ends_of_all_logs_are_printed_with_their_names(stoker: Stoker, logs: Path) -> None:
    result = stoker("cluster", "logs", "--lines", "2")
    assert result.stdout == "==> master-1 <==\nm98\nm99\n\n==> task-executor-1 <==\nt0\nt1\n"


def test_one_log_is_printed_by_the_name_of_its_process(stoker: Stoker, logs: Path) -> None:
    assert stoker("cluster", "logs", "master-1", "--lines", "1").stdout == "m99\n"
    printed = stoker("cluster", "logs", "task-executor-1", "--json").stdout.splitlines()
    assert [json.loads(line) for line in printed] == [
        {"process": "task-executor-1", "text": "t0"},
        {"process": "task-executor-1", "text": "t1"},
    ]


def test_an_unknown_process_is_refused_with_a_suggestion(stoker: Stoker, logs: Path) -> None:
    result = stoker("cluster", "logs", "master1")
    assert result.exit_code == 1
    assert "did you mean 'master-1'?" in result.stderr


def test_without_logs_the_error_says_where_they_were_looked_for(
    stoker: Stoker, tmp_path: Path
) -> None:
    result = stoker("cluster", "logs")
    assert result.exit_code == 1
    assert str(tmp_path / "home" / "local") in result.stderr


def test_the_last_lines_of_a_log_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "master-1.log"
    path.write_text("".join(f"{n:>1000}\n" for n in range(300)))
    lines = LogTail(path).last_lines(200)
    assert [int(line) for line in lines] == list(range(100, 300))
    assert LogTail(path).last_lines(0) == []


def test_new_lines_are_read_when_they_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "master-1.log"
    path.write_text("old\n")
    tail = LogTail(path)
    tail.last_lines(1)
    with path.open("a") as log:
        log.write("new\nhal")
    assert list(tail.new_lines()) == ["new"]
    with path.open("a") as log:
        log.write("f\n")
    assert list(tail.new_lines()) == ["half"]
    path.write_text("x\n")
    assert list(tail.new_lines()) == ["x"]
