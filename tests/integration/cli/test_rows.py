"""What a SELECT returns: printed, written to files, and read later, whoever leads by then."""

import json
from pathlib import Path

import pyarrow.parquet
import pytest

import stoker as stoker_package
from builders import wait_until
from integration.cli.conftest import CommandLine

SCRIPT = """
-- name: squares
CREATE TEMPORARY VIEW numbers AS SELECT id, id * id AS square FROM range(1, 61);
SELECT count(*) AS many FROM numbers;
SELECT id, square, DATE'2026-01-02' AS on FROM numbers ORDER BY id;
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "squares.sql"
    path.write_text(SCRIPT)
    return path


def test_the_rows_of_each_select_are_printed_with_their_number(stoker, script: Path) -> None:
    done = stoker("run", script)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["many", "60"]
    assert lines[2].split() == ["id", "square", "on"]
    assert lines[3].split() == ["1", "1", "2026-01-02"]
    assert len(lines) == 2 + 1 + 50, "standard output holds the tables alone"
    assert "Query 1 of 2: SELECT count(*) AS many FROM numbers\n1 row." in done.stderr
    assert "The first 50 of 60 rows; --output FILE writes all." in done.stderr
    assert "FINISHED after" in done.stderr


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_output_writes_all_rows_of_the_last_select(
    stoker, script: Path, tmp_path: Path, form: str
) -> None:
    target = tmp_path / f"rows.{form}"
    done = stoker("run", script, "--output", target)
    assert f"Wrote 60 rows to {target}." in done.stderr
    match form:
        case "json":
            assert json.loads(target.read_text())[59]["square"] == 3600
        case "csv":
            assert target.read_text().splitlines()[60] == "60,3600,2026-01-02"
        case _:
            assert pyarrow.parquet.read_table(target).column("square")[59].as_py() == 3600


def test_output_is_refused_before_anything_runs(stoker, script: Path, slow_job: Path) -> None:
    assert "let its name end with" in stoker("run", script, "-o", "rows.txt", expect=1).stderr
    refused = stoker("run", slow_job, "-o", "rows.csv", expect=1).stderr
    assert "--output writes the rows of a SELECT in a SQL script" in refused
    detached = stoker("run", "-d", script, "-o", "rows.csv", expect=1).stderr
    assert "stoker rows JOB --output FILE" in detached


def test_without_a_cluster_the_rows_are_printed_too(tmp_path: Path, script: Path) -> None:
    done = CommandLine(tmp_path)("run", script)
    assert done.stdout.splitlines()[:2] == ["many", "60"]


def test_a_client_reads_rows_as_a_list_arrow_and_pandas(
    stoker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_HOME", str(stoker.home))
    with stoker_package.connect() as cluster:
        job = cluster.sql("select id, id / 2 as half from range(3) order by id")
        assert [(row.id, row["half"]) for row in job.rows()] == [(0, 0.0), (1, 0.5), (2, 1.0)]
        assert job.to_arrow().column("half").to_pylist() == [0.0, 0.5, 1.0]
        assert job.to_pandas()["id"].sum() == 3


def test_rows_are_read_after_the_master_was_replaced(stoker, script: Path) -> None:
    job = stoker.submit(script)
    stoker("wait", job)
    before = stoker("rows", job).stdout
    stoker.kill("master-1")
    stoker("cluster", "up")
    wait_until(lambda: stoker("rows", job, expect=None).returncode == 0, "a master leads", 60)
    assert stoker("rows", job).stdout == before
    assert json.loads(stoker("rows", job, "--query", "1", "--json").stdout) == [{"many": 60}]


def test_a_job_without_a_select_says_so(stoker, tmp_path: Path) -> None:
    path = tmp_path / "silent.sql"
    path.write_text("-- name: silent\nCREATE TEMPORARY VIEW v AS SELECT 1")
    done = stoker("run", path)
    assert "FINISHED after" in done.stdout
    job = done.stdout.split()[1]
    assert "has no rows: only a SELECT" in stoker("rows", job, expect=1).stderr
