"""The audit log: complete, rotated, readable, and no obstacle."""

import asyncio
import json
import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.options import ByteSize
from stoker.security.audit import (
    MAX_TEXT,
    AuditLog,
    AuditQuery,
    audit_file,
    audit_time,
    read_audit_files,
)
from stoker.security.audit_entries import AuditEntry, merge_entries
from stoker.security.options import AuditOptions


def entry(number: int, **others: str) -> AuditEntry:
    fields = {"caller": "ana", "object": f"job-{number}", **others}
    return AuditEntry(time=audit_time(number), address="127.0.0.1", action="POST /jobs", **fields)


def numbers(entries: list[AuditEntry]) -> list[int]:
    return [int(each.object.removeprefix("job-")) for each in entries]


async def test_each_entry_is_one_line_of_json_that_only_its_owner_can_read(tmp_path: Path) -> None:
    file = audit_file(AuditOptions(), tmp_path)
    await AuditLog(file, AuditOptions()).append(entry(1, reason="two\nlines"))
    [line] = file.read_text().splitlines()
    found = json.loads(line)
    assert (found["time"], found["caller"]) == ("1970-01-01T00:00:00.001Z", "ana")
    assert found["reason"] == "two\nlines"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_an_entry_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    """Also when many are appended together, by two masters of one machine."""
    masters = [AuditLog(tmp_path / "audit", AuditOptions()) for _ in range(2)]

    async def append_and_look(number: int) -> None:
        await masters[number % 2].append(entry(number))
        assert f'"job-{number}"' in (tmp_path / "audit").read_text()

    await asyncio.gather(*(append_and_look(number) for number in range(50)))
    lines = (tmp_path / "audit").read_text().splitlines()
    assert sorted(json.loads(line)["object"] for line in lines) == sorted(
        f"job-{number}" for number in range(50)
    )


async def test_a_full_log_is_rotated_and_the_oldest_file_deleted(tmp_path: Path) -> None:
    options = AuditOptions(max_size=ByteSize(700), max_files=3)
    audit = AuditLog(tmp_path / "audit", options)
    for number in range(40):
        await audit.append(entry(number))
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["audit", "audit.1", "audit.2", "audit.lock"]
    assert all(path.stat().st_size <= 700 for path in tmp_path.iterdir())
    found = numbers(await audit.read(AuditQuery()))
    assert found == list(range(39, 39 - len(found), -1)), "the newest, without a gap"
    assert 3 < len(found) < 20


async def test_entries_are_found_by_caller_and_by_the_beginning_of_the_object(
    tmp_path: Path,
) -> None:
    audit = AuditLog(tmp_path / "audit", AuditOptions())
    for number in range(6):
        await audit.append(entry(number, caller="ana" if number % 2 else "bob"))
    assert numbers(await audit.read(AuditQuery(caller="bob"))) == [4, 2, 0]
    assert numbers(await audit.read(AuditQuery(object="job-3"))) == [3]
    assert numbers(await audit.read(AuditQuery(limit=2))) == [5, 4]


async def test_a_line_that_was_cut_off_harms_no_other(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit", AuditOptions())
    await audit.append(entry(1))
    with (tmp_path / "audit").open("ab") as file:
        file.write(b'{"time": "19\n')
    await audit.append(entry(2))
    assert numbers(await audit.read(AuditQuery())) == [2, 1]


async def test_a_log_that_cannot_be_written_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The entry is in the log of the process instead."""
    (tmp_path / "file").touch()
    await AuditLog(tmp_path / "file" / "audit", AuditOptions()).append(entry(7))
    assert "job-7" in caplog.text


async def test_nobody_fills_the_log_with_one_request(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit", AuditOptions())
    await audit.append(entry(1, object="x" * 10_000, reason="y" * 10_000))
    [found] = await audit.read(AuditQuery())
    assert (len(found.object), len(found.reason)) == (MAX_TEXT + 1, MAX_TEXT + 1)


def sequences(entries: list[AuditEntry]) -> list[tuple[str, int]]:
    return [(each.master, each.sequence) for each in entries]


async def test_entries_of_a_master_are_numbered_without_a_gap_through_restart_and_rotation(
    tmp_path: Path,
) -> None:
    options = AuditOptions(max_size=ByteSize(900), max_files=3)
    for _ in range(3):
        # Each turn is a process; both masters of the machine write into one file.
        masters = [AuditLog(tmp_path / "audit", options, name) for name in ("m-1", "m-10")]
        await asyncio.gather(*(masters[number % 2].append(entry(number)) for number in range(6)))
    found = await AuditLog(tmp_path / "audit", options).read(AuditQuery(limit=1000))
    for name in ("m-1", "m-10"):
        own = [each.sequence for each in found if each.master == name]
        assert own == list(range(9, 9 - len(own), -1))
        assert len(own) > 2


async def test_logs_of_several_machines_are_merged_by_time(tmp_path: Path) -> None:
    for number in range(6):
        machine = f"m-{number % 2}"
        await AuditLog(tmp_path / machine, AuditOptions(), machine).append(entry(number))
    files = [tmp_path / "m-0", tmp_path / "m-1", tmp_path / "m-0"]
    merged = read_audit_files(files, AuditQuery())
    assert numbers(merged) == [5, 4, 3, 2, 1, 0], "each once"
    assert sequences(merged) == [
        (f"m-{number % 2}", number // 2 + 1) for number in range(5, -1, -1)
    ]
    assert numbers(read_audit_files(files, AuditQuery(object="job-3", limit=1))) == [3]


entries_of_masters = st.lists(
    st.tuples(st.sampled_from(["a", "b", ""]), st.integers(0, 20)), max_size=30
)


@given(entries_of_masters)
def test_a_merge_keeps_the_order_of_each_master_whatever_its_clock_says(
    written: list[tuple[str, int]],
) -> None:
    logs: dict[str, list[AuditEntry]] = {}
    for master, at in written:
        own = logs.setdefault(master, [])
        number = len(own) + 1 if master else 0
        made = msgspec.structs.replace(entry(at), master=master, sequence=number)
        own.append(made)
    merged = merge_entries([*logs.values(), logs.get("a", [])])
    assert len(merged) == len(written)
    for master in ("a", "b"):
        assert [each for each in merged if each.master == master] == logs.get(master, [])
