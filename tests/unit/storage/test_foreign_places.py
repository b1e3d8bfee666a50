"""Places of clients: threads of their own, limits of time and size, no pipes and devices."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from stoker.core.errors import InvalidInput, StorageUnavailable
from stoker.storage.files import FileStorage
from stoker.storage.open import open_place
from stoker.storage.threads import ForeignThreads


class Hanging:
    """A call that does not return until it is released."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.begun = 0

    def __call__(self) -> None:
        self.begun += 1
        self.release.wait(60)


async def test_a_call_that_hangs_is_given_up_and_takes_no_common_thread() -> None:
    threads = ForeignThreads(limit=2, seconds=0.05)
    hanging = Hanging()
    try:
        calls = [threads(hanging) for _ in range(6)]
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, OSError)
            assert "no answer in 0.05 s" in str(outcome)
        assert hanging.begun == 2, "calls do not pile up"
        assert await asyncio.to_thread(lambda: "free") == "free"
    finally:
        hanging.release.set()


async def test_threads_are_used_again_when_their_calls_return() -> None:
    threads = ForeignThreads(limit=1, seconds=60)
    assert [await threads(lambda n=n: n) for n in range(3)] == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        await threads(lambda: 1 // 0)
    assert await threads(lambda: "free", is_long=True) == "free"


async def test_a_time_out_of_the_call_itself_stays_what_it_is() -> None:
    def refuse() -> None:
        raise TimeoutError("of a socket")

    with pytest.raises(TimeoutError, match="of a socket"):
        await ForeignThreads(seconds=60)(refuse)


async def test_copies_may_take_longer_than_other_calls() -> None:
    threads = ForeignThreads(limit=1, seconds=0.01)
    assert await threads(lambda: time.sleep(0.05), is_long=True) is None


@pytest.mark.parametrize("path", ["pipe", "device", "folder"])
async def test_what_has_no_end_is_neither_read_nor_downloaded(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    error = StorageUnavailable if path == "folder" else InvalidInput
    target = tmp_path / "target"
    for storage in (FileStorage(tmp_path), open_place(str(tmp_path))):
        with pytest.raises(error):
            await storage.read(path)
        with pytest.raises(error):
            await storage.download(path, target)
        assert not target.exists()


async def test_a_remote_place_is_reached_only_with_its_first_call_and_not_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connected: list[int] = []

    def connect(_url: str) -> None:
        connected.append(threading.get_ident())
        raise OSError("nobody there")

    monkeypatch.setattr("fsspec.core.url_to_fs", connect)
    storage = open_place("ftp://127.0.0.1:1/a", off_loop=ForeignThreads())
    assert connected == []
    with pytest.raises(StorageUnavailable, match="nobody there"):
        await storage.read("b")
    assert connected
    assert connected[0] != threading.get_ident()
