"""The event stream: its greeting, its topics, what it tells of the log, and slow readers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from builders import virtual
from stoker.core.states import JobStatus
from stoker.events.event import EventId, EventKind
from stoker.rest.events import feed
from stoker.rest.events.feed import ClusterFeed
from stoker.rest.events.log_feed import LogFeed
from stoker.rest.events.stream import KEEP_ALIVE_SECONDS, stream_events
from stoker.rest.events.topics import parse_topics
from stoker.rest.http.asgi import Message, Stream
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import CANCELED, FINISHED, NOW, RUNNING
from unit.events.logged import JOB, event


class Reader:
    """What a client has received of a stream."""

    def __init__(self) -> None:
        self.text = b""
        self.ended = False

    @property
    def messages(self) -> list[tuple[str, Any]]:
        found = []
        for block in self.text.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "event" in fields:
                found.append((fields["event"], msgspec.json.decode(fields["data"])))
        return found

    def of(self, name: str) -> list[Any]:
        return [data for each, data in self.messages if each == name]


@asynccontextmanager
async def reading(
    master: Master, topics: str, *, owner: str | None = None, after: str | None = None, **parts: Any
) -> AsyncIterator[Reader]:
    services = master.services
    for name, part in parts.items():
        object.__setattr__(services, name, part)
    reader = Reader()

    async def read() -> None:
        position = None if after is None else EventId.parse(after)
        stream = stream_events(services, parse_topics(topics), owner=owner, after=position)
        async for piece in stream:
            reader.text += piece
        reader.ended = True

    task = asyncio.create_task(read())
    await asyncio.sleep(feed.POLL_SECONDS)
    try:
        yield reader
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@virtual
async def test_the_first_message_tells_time_leader_and_epoch() -> None:
    master = Master(leader="http://m1:8081")
    master.dispatcher.events = [event(7, 1)]
    async with reading(master, "log,cluster") as reader:
        assert reader.text.startswith(b"retry: 1000\n\n")
        assert reader.messages[0] == (
            "hello",
            {
                "server-time": NOW,
                "epoch": 7,
                "leader": "http://m1:8081",
                "topics": ["cluster", "log"],
                "last": "7-1",
            },
        )
        master.epoch = 8
        await asyncio.sleep(2)
        assert [hello["epoch"] for hello in reader.of("hello")] == [7, 8]


@virtual
async def test_only_the_topics_that_were_asked_for_are_sent() -> None:
    master = Master()
    async with reading(master, "jobs") as reader:
        assert {name for name, _ in reader.messages} == {"hello", "job"}
    async with reading(master, "cluster") as reader:
        assert {name for name, _ in reader.messages} == {"hello", "cluster"}
    async with reading(master, f"jobs,cluster,log,job:{RUNNING}") as reader:
        assert {name for name, _ in reader.messages} == {"hello", "job", "cluster", "progress"}


@virtual
async def test_a_stream_shows_a_job_that_ends_and_one_that_is_forgotten() -> None:
    master = Master()
    async with reading(master, "jobs") as reader:
        master.dispatcher.set_status(RUNNING, JobStatus.FINISHED)
        await asyncio.sleep(2)
        assert reader.of("job")[-1]["state"] == "FINISHED"
        del master.dispatcher.jobs[FINISHED]
        await asyncio.sleep(2)
        assert reader.of("removed") == [{"jid": FINISHED}]


@virtual
async def test_a_stream_about_jobs_alone_ends_with_the_last_of_them() -> None:
    master = Master()
    async with reading(master, f"job:{RUNNING},job:{CANCELED}") as reader:
        assert reader.of("end") == [{"jid": CANCELED, "state": "CANCELED"}]
        assert not reader.ended
        master.dispatcher.set_status(RUNNING, JobStatus.FAILED)
        await asyncio.sleep(2)
        assert reader.of("end")[-1] == {"jid": RUNNING, "state": "FAILED"}
        assert reader.ended


@virtual
async def test_the_log_is_followed_from_now_on_or_from_an_event_on() -> None:
    master = Master()
    master.dispatcher.events = [event(1, 1), event(1, 2), event(1, 5)]
    async with (
        reading(master, "log") as from_now,
        reading(master, "log", after="1-1") as from_one,
    ):
        await asyncio.sleep(2)
        master.dispatcher.events += [event(2, 1, EventKind.LEADER_CHANGED, job=None, owner="")]
        await asyncio.sleep(2)
        assert [each["id"] for each in from_now.of("log")] == ["2-1"]
        assert [each["id"] for each in from_one.of("log")] == ["1-2", "1-5", "2-1"]
        [gap] = from_one.of("gap")
        assert (gap["before"], gap["missing"]) == ("1-5", 2)
        names = [name for name, _ in from_one.messages]
        assert names == ["hello", "log", "gap", "log", "log"]
        assert b"id: 1-5\nevent: log" in from_one.text, "a browser continues by this id"


@virtual
async def test_a_stream_that_is_far_behind_catches_up_without_a_hole() -> None:
    master = Master()
    master.dispatcher.events = [event(1, number) for number in range(1, 1500)]
    shared = LogFeed(kept=10)
    async with (
        reading(master, "log", log_feed=shared) as first,
        reading(master, "log", after="1-1", log_feed=shared) as late,
    ):
        for number in range(1500, 1540):
            master.dispatcher.events.append(event(1, number))
            await asyncio.sleep(0.2)
        await asyncio.sleep(5)
        assert [each["id"] for each in late.of("log")] == [f"1-{n}" for n in range(2, 1540)]
        assert [each["id"] for each in first.of("log")] == [f"1-{n}" for n in range(1500, 1540)]


@virtual
async def test_a_user_who_sees_only_his_own_jobs_gets_only_their_events() -> None:
    master = Master()
    jobs = master.dispatcher.jobs
    jobs[RUNNING] = msgspec.structs.replace(jobs[RUNNING], owner="ana")
    master.dispatcher.events = [
        event(1, 1, EventKind.LEADER_CHANGED, job=None, owner=""),
        event(1, 2, job=JOB, owner="ana"),
        event(1, 3, job=JOB, owner="ben"),
    ]
    async with (
        reading(master, "jobs,cluster,log", owner="ana", after="0-0") as ana,
        reading(master, "jobs,cluster,log", owner="ben", after="0-0") as ben,
    ):
        await asyncio.sleep(2)
        assert [each["id"] for each in ana.of("log")] == ["1-2"]
        assert [each["id"] for each in ben.of("log")] == ["1-3"]
        assert [each["jid"] for each in ana.of("job")] == [RUNNING]
        assert ben.of("job") == []
        assert ana.of("cluster") == ben.of("cluster") != []


@virtual
async def test_a_reader_that_fell_behind_the_job_list_is_told_and_gets_the_present_state() -> None:
    master = Master()
    services = master.services
    object.__setattr__(services, "feed", ClusterFeed(kept=2))
    topics = parse_topics("jobs")
    slow = stream_events(services, topics, owner=None, after=None)
    text = b"".join([await anext(slow), await anext(slow)])
    states = [JobStatus.FAILING, JobStatus.RUNNING, JobStatus.FAILING]

    async def look() -> Any:
        jobs = (await services.job_list_snapshot()).jobs
        return jobs, await master.dispatcher.cluster_overview()

    for status in states:
        master.dispatcher.set_status(RUNNING, status)
        await asyncio.sleep(feed.POLL_SECONDS)
        await services.feed.begin(look)
    text = await anext(slow)
    assert text.startswith(b"event: gap")
    assert b'"slow-reader"' in text
    assert b'"FAILING"' in text
    await slow.aclose()


@virtual
async def test_a_quiet_stream_sends_signs_of_life() -> None:
    async with reading(Master(), "log") as reader:
        await asyncio.sleep(2 * KEEP_ALIVE_SECONDS + 2)
        assert reader.text.count(b": alive\n\n") == 2


@virtual
async def test_a_client_that_never_reads_loses_its_stream() -> None:
    """The generator is not asked for more meanwhile, so nothing is kept for this client."""
    produced: list[int] = []

    async def chunks() -> Any:
        for number in range(1000):
            produced.append(number)
            yield b"x"

    async def never() -> Message:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await never()

    loop = asyncio.get_running_loop()
    begun = loop.time()
    await Stream(chunks(), media_type="text/event-stream", patience=30.0).send(never, send)
    assert loop.time() - begun == 30.0
    assert produced == [0]
