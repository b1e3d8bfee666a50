"""Results of materialized vertices: recorded once, verified, dropped when damaged."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from stoker.core.ids import AttemptId
from stoker.engine.region.materialize import MaterializedResults, ResultDamaged


def written(rows: int = 3):  # type: ignore[no-untyped-def]
    def write(directory: str) -> None:
        folder = Path(directory.removeprefix("file://"))
        folder.mkdir(parents=True)
        parquet.write_table(pa.table({"id": range(rows)}), folder / "part-0.parquet")
        (folder / "_SUCCESS").touch()

    return write


@pytest.fixture
def results(tmp_path: Path) -> MaterializedResults:
    return MaterializedResults((tmp_path / "a place").as_uri())


def test_a_result_is_written_once_and_reused_with_its_rows(results: MaterializedResults) -> None:
    assert results.reuse("v") is None
    first = results.write("v", AttemptId("one"), written())
    assert (first.rows, results.reuse("v")) == (3, first)
    second = results.write("v", AttemptId("two"), written(9))
    assert second == first, "the first record stays valid"
    assert results.directory_of("v") == first.directory


@pytest.mark.parametrize("how", ["missing", "short", "changed"])
def test_a_damaged_result_is_not_reused_but_written_again(
    results: MaterializedResults, how: str
) -> None:
    manifest = results.write("v", AttemptId("one"), written())
    file = Path(manifest.directory.removeprefix("file://")) / "part-0.parquet"
    content = file.read_bytes()
    match how:
        case "missing":
            file.unlink()
        case "short":
            file.write_bytes(content[:-1])
        case "changed":
            file.write_bytes(content[:-1] + b"?")
    if how != "changed":
        with pytest.raises(ResultDamaged, match=r"result of v is damaged: .*part-0.parquet"):
            results.directory_of("v")
    assert results.reuse("v") is None
    again = results.write("v", AttemptId("two"), written())
    assert results.directory_of("v") == again.directory


def test_an_unreadable_manifest_counts_as_damage(
    results: MaterializedResults, tmp_path: Path
) -> None:
    results.write("v", AttemptId("one"), written())
    (tmp_path / "a place" / "v" / "manifest.json").write_text("{")
    with pytest.raises(ResultDamaged, match="cannot be understood"):
        results.directory_of("v")
    assert results.reuse("v") is None


def test_files_without_a_manifest_are_no_result(
    results: MaterializedResults, tmp_path: Path
) -> None:
    for directory in ("v", "v/one"):
        written()(str(tmp_path / "a place" / directory))
        with pytest.raises(ResultDamaged, match="v has no manifest"):
            results.directory_of("v")
    assert results.reuse("v") is None


def test_a_manifest_is_json_with_rows_sizes_and_checksums(
    results: MaterializedResults, tmp_path: Path
) -> None:
    results.write("v", AttemptId("one"), written())
    record = json.loads((tmp_path / "a place" / "v" / "manifest.json").read_text())
    [data] = [f for f in record["manifest"]["files"] if f["path"] == "part-0.parquet"]
    assert data["rows"] == 3
    assert data["size"] > 0
    assert len(data["checksum"]) == 8
