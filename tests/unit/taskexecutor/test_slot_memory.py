"""What a task executor keeps of its slots for its next life (TM-22)."""

from pathlib import Path

import pytest

from stoker.core.ids import AllocationId, JobId
from stoker.taskexecutor.slot_memory import FileSlotMemory, KeptSlot

JOB = JobId("1" * 32)


def kept(index: int, allocation: str = "a") -> KeptSlot:
    return KeptSlot(index=index, job_id=JOB, allocation=AllocationId(allocation))


def test_the_next_life_finds_what_this_one_kept(tmp_path: Path) -> None:
    """TM-22"""
    memory = FileSlotMemory(tmp_path / "slots")
    for index in (10, 2, 0):
        memory.keep(kept(index, f"of {index}"))
    memory.keep(kept(2, "another"))
    memory.forget(0)
    assert FileSlotMemory(tmp_path / "slots").recall() == [kept(2, "another"), kept(10, "of 10")]


def test_nothing_was_kept_and_nothing_is_there_to_forget(tmp_path: Path) -> None:
    memory = FileSlotMemory(tmp_path / "slots")
    assert memory.recall() == []
    memory.forget(3)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"index": "x"}',
        b'{"index": 0, "job_id": "\xff", "allocation": "a"}',
    ],
)
def test_what_is_damaged_is_removed_and_its_slot_begins_free(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """TM-22"""
    memory = FileSlotMemory(tmp_path)
    memory.keep(kept(0))
    memory.keep(kept(1))
    (tmp_path / "0").write_bytes(content)
    assert memory.recall() == [kept(1)]
    assert not (tmp_path / "0").exists()
    assert f"{tmp_path / '0'} is of no use and removed" in caplog.text


def test_a_file_of_another_slot_is_not_believed(tmp_path: Path) -> None:
    memory = FileSlotMemory(tmp_path)
    memory.keep(kept(1))
    (tmp_path / "1").rename(tmp_path / "0")
    assert memory.recall() == []


def test_a_file_that_was_not_finished_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / ".0").write_bytes(b'{"ind')
    assert FileSlotMemory(tmp_path).recall() == []


def test_a_disk_that_refuses_harms_nobody_and_leaves_no_older_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = FileSlotMemory(tmp_path)
    memory.keep(kept(0, "older"))
    (tmp_path / ".0").mkdir()
    memory.keep(kept(0, "newer"))
    assert memory.recall() == []
    assert "slot 0 would be free after a restart" in caplog.text
