"""Long lists that are compressed: what stays is packed once, what changes is sent as it is."""

import asyncio
import gzip
from typing import Any

import msgspec
import pytest

from stoker.rest.job_list import list_packer
from stoker.rest.job_list.gzip_stream import Part, packed
from stoker.rest.job_list.list_packer import LASTING, ListPacker
from stoker.rest.job_list.rows import ListedJobs
from unit.rest.job_list.test_rows import job

AROUND = (b'{"jobs":', b"}")


def told(stream: tuple[bytes, ...]) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = msgspec.json.decode(gzip.decompress(b"".join(stream)))["jobs"]
    return jobs


async def packings(packer: ListPacker, jobs: ListedJobs, looks: int) -> list[int]:
    """The length of the answer at each look, with time to pack in between."""
    lengths = []
    for now in range(looks):
        stream = packer.stream(jobs.pieces(500 + now), *AROUND)
        assert told(stream) == msgspec.json.decode(
            b"[%b]" % b",".join(each.encoded(500 + now) for each in jobs)
        )
        lengths.append(sum(map(len, stream)))
        if packer._packing is not None:
            await packer._packing
    return lengths


async def test_what_was_asked_for_a_few_times_is_packed() -> None:
    jobs = ListedJobs([job(number) for number in range(300)], most=100)
    lengths = await packings(ListPacker(), jobs, LASTING + 1)
    assert len(set(lengths[:LASTING])) == 1
    assert lengths[-1] < lengths[0] / 5


async def test_only_what_stays_as_it_is_is_packed_and_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Part] = []

    def counting(content: memoryview) -> Part:
        made.append(packed(content))
        return made[-1]

    monkeypatch.setattr(list_packer, "packed", counting)
    living = [job(number, 9, lives=True) for number in range(2)]
    jobs = ListedJobs([*living, *(job(number) for number in range(2, 82))], most=100)
    packer = ListPacker()
    await packings(packer, jobs, 3 * LASTING)
    assert [part.size > 30_000 for part in made] == [True], "those that live are apart"
    for number in range(300, 300 + 2 * LASTING):
        jobs.add(job(number, 10, lives=True))
        await packings(packer, jobs, 1)
    assert len(made) == 1, "they stay packed when another one comes before them"
    for number in range(10, 10 + 2 * LASTING):
        jobs.remove(job(number))
        await packings(packer, jobs, 1)
    assert len(made) == 1, "what changes all the time is not worth it"


async def test_a_list_without_jobs_is_a_list() -> None:
    assert told(ListPacker().stream([], *AROUND)) == []


async def test_one_that_is_packed_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(make: Any, content: memoryview) -> Part:
        begun.set()
        await go_on.wait()
        part: Part = make(content)
        return part

    monkeypatch.setattr(asyncio, "to_thread", slow)
    jobs, packer = ListedJobs([job(number) for number in range(9)], most=3), ListPacker()
    for _ in range(LASTING):
        packer.stream(jobs.pieces(500), *AROUND)
    await begun.wait()
    assert len(told(packer.stream(jobs.pieces(500), *AROUND))) == 9
    go_on.set()
    assert packer._packing is not None
    await packer._packing
    assert all(piece.part is not None for piece in jobs.pieces(500))
