"""Both clients against a real server on loopback: the same calls, the same errors."""

import asyncio
import hashlib
import inspect
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoker.client.asynchronous import AsyncClient
from stoker.client.blocking import BlockingClient
from stoker.client.calls import EventFilter
from stoker.client.operations import (
    OPERATION_POLL_SECONDS,
    all_rows,
    newest_events,
    next_events,
)
from stoker.client.options import ClientOptions
from stoker.core.checkpoints import SavepointRequest, SavepointTaken
from stoker.core.errors import (
    CallTimedOut,
    Conflict,
    InvalidInput,
    InvalidOption,
    NoLeader,
    NotFound,
    StorageFull,
    TooLarge,
    Unavailable,
)
from stoker.core.graph import Artifact, ArtifactKind
from stoker.core.ids import JobId
from stoker.core.options import ByteSize
from stoker.core.states import JobStatus
from stoker.gateways.dispatcher import SavepointStatus
from stoker.rest.options import RestOptions
from stoker.savepoints.manifest import MANIFEST, SavedFile, SavepointManifest, encode_manifest
from stoker.testing.rest import QUERY_RESULT, DispatcherInMemory, Master
from stoker.testing.sample_jobs import (
    BROKEN,
    EXECUTOR,
    FAILED,
    FINISHED,
    NEW,
    RUNNING,
    UNKNOWN,
    new_graph,
)
from unit.events.logged import JOB, event

QUICK = ClientOptions(retries=2, retry_delay=timedelta(seconds=7))


class InThread:
    """The blocking client with the methods of the async one; each call runs in a thread."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        return lambda *args, **kwargs: asyncio.to_thread(method, *args, **kwargs)


class Pauses:
    """Records pauses instead of making them."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.seconds: list[float] = []
        self._then = then

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._then()

    async def sleep(self, seconds: float) -> None:
        self(seconds)


@pytest.fixture(params=["blocking", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def client(
    kind: str, url: str, options: ClientOptions = QUICK, pauses: Pauses | None = None
) -> AsyncIterator[Any]:
    pauses = pauses or Pauses()
    if kind == "blocking":
        with BlockingClient(url, options, sleep=pauses) as blocking:
            yield InThread(blocking)
    else:
        async with AsyncClient(url, options, sleep=pauses.sleep) as awaiting:
            yield awaiting


def unused_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_both_clients_have_the_same_surface() -> None:
    def surface(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert surface(BlockingClient) == surface(AsyncClient)


async def test_every_query_is_answered(kind: str) -> None:
    async with Master().serving() as url, client(kind, url) as stoker:
        assert [job.jid for job in await stoker.jobs()][:2] == [RUNNING, FINISHED]
        assert (await stoker.job(RUNNING)).regions[0].current.progress.tasks_done == 2
        assert await stoker.status(RUNNING) is JobStatus.RUNNING
        assert await stoker.result(RUNNING) is None
        assert (await stoker.result(FAILED)).failure_cause.error == "AnalysisException"
        assert len((await stoker.plan(RUNNING)).nodes) == 3
        assert len((await stoker.exceptions(FAILED)).entries) == 3
        assert (await stoker.overview()).slots_total == 4
        assert (await stoker.task_executors())[0].id == EXECUTOR


async def test_events_are_read_page_by_page_and_followed(kind: str) -> None:
    master = Master()
    master.dispatcher.events = [event(1, number) for number in range(1, 6)]
    async with master.serving() as url, client(kind, url) as stoker:
        page = await stoker.events(limit=2)
        assert [each.id for each in page.events] == ["1-5", "1-4"]
        page = await stoker.events(limit=2, page=page.next)
        assert [each.id for each in page.events] == ["1-3", "1-2"]
        wanted = EventFilter(kinds=("job-started",), job=JOB, owner="ana", since=3, until=5)
        page = await stoker.events(wanted, oldest_first=True)
        assert [each.id for each in page.events] == ["1-3", "1-4"]
        pages = await stoker.run(newest_events(EventFilter(), 3))
        assert [each.id for page in pages for each in page.events] == ["1-5", "1-4", "1-3"]
        page = await stoker.run(next_events(EventFilter(after="1-4")))
        assert [each.id for each in page.events] == ["1-5"]


async def test_rows_are_read_to_the_end_and_as_far_as_they_are_wanted(kind: str) -> None:
    async with Master().serving() as url, client(kind, url) as stoker:
        rows = await stoker.run(all_rows(FINISHED))
        assert rows == [(1, "a"), (2, None), (3, "c")]
        assert rows[0].name == "a"
        assert (rows.total, rows.truncated) == (3, QUERY_RESULT.truncated)
        assert len(await stoker.run(all_rows(FINISHED, most=2))) == 2
        assert (await stoker.rows(FINISHED, offset=1)).next_offset == 2
        assert (await stoker.rows(FINISHED, offset=9)).rows == []
        with pytest.raises(NotFound, match="has no rows"):
            await stoker.rows(RUNNING)


async def test_jobs_in_quarantine_are_shown_retried_and_dropped(kind: str) -> None:
    """Until a retry succeeds, the answer about the job says what to do (RUN-12)."""
    master = Master()
    master.dispatcher.put_into_quarantine(BROKEN)
    async with master.serving() as url, client(kind, url) as stoker:
        [shown] = await stoker.quarantined()
        assert (shown.job_id, shown.reason) == (BROKEN, "its graph cannot be understood")
        with pytest.raises(Conflict, match="does not run: its graph"):
            await stoker.retry_quarantined(BROKEN)
        with pytest.raises(Conflict, match="stoker quarantine retry"):
            await stoker.status(BROKEN)
        await stoker.cancel(BROKEN)
        await stoker.drop_quarantined(BROKEN)
        assert await stoker.quarantined() == []
        assert await stoker.status(BROKEN) is JobStatus.FAILED
        with pytest.raises(NotFound):
            await stoker.drop_quarantined(BROKEN)
        with pytest.raises(InvalidInput):
            await stoker.retry_quarantined("../jobs")


async def test_a_job_is_submitted_with_its_files_and_again(kind: str, tmp_path: Path) -> None:
    content = b"library" * 500_000
    file = tmp_path / "my lib.whl"
    file.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    artifact = Artifact(
        name="my lib.whl", kind=ArtifactKind.WHEEL, sha256=digest, size=len(content)
    )
    graph = new_graph(artifacts=(artifact,))
    master = Master()
    async with master.serving() as url, client(kind, url) as stoker:
        first = await stoker.submit(graph, {digest: file})
        second = await stoker.submit(graph, {digest: file})
    assert (first.job_id, first.repeated, second.repeated) == (NEW, False, True)
    assert master.blobs.content[NEW, digest] == content


async def test_a_missing_or_changed_file_is_noticed_before_anything_is_sent(
    kind: str, tmp_path: Path
) -> None:
    artifact = Artifact(name="lib.py", kind=ArtifactKind.PYTHON, sha256="ab" * 32, size=3)
    graph = new_graph(artifacts=(artifact,))
    changed = tmp_path / "lib.py"
    changed.write_bytes(b"other")
    async with client(kind, unused_url()) as stoker:
        with pytest.raises(InvalidInput, match=r"no file was given for artifact lib\.py"):
            await stoker.submit(graph, {})
        with pytest.raises(InvalidInput, match="there is no file"):
            await stoker.submit(graph, {artifact.sha256: tmp_path / "gone"})
        with pytest.raises(InvalidInput, match="has 5 bytes, but had 3"):
            await stoker.submit(graph, {artifact.sha256: changed})


async def test_a_wait_for_the_end_of_a_job_survives_a_change_of_leader(kind: str) -> None:
    """SUSPENDED is no end for the client (REST-26)."""
    master = Master()
    seen = []
    changes = iter((JobStatus.SUSPENDED, JobStatus.RUNNING, JobStatus.FINISHED))
    loop = asyncio.get_running_loop()

    def tell(status: JobStatus) -> None:
        seen.append(status)
        loop.call_soon_threadsafe(master.dispatcher.set_status, RUNNING, next(changes))

    async with master.serving() as url, client(kind, url) as stoker:
        assert await stoker.wait(RUNNING, tell) is JobStatus.FINISHED
    assert seen == [JobStatus.RUNNING, JobStatus.SUSPENDED, JobStatus.RUNNING]


async def test_a_wait_without_a_callback_returns_only_at_the_end_of_the_job(kind: str) -> None:
    master = Master()
    async with master.serving() as url, client(kind, url) as stoker:
        waiting = asyncio.create_task(stoker.wait(RUNNING))
        for status in (JobStatus.RESTARTING, JobStatus.RUNNING, JobStatus.FINISHED):
            await asyncio.sleep(0.1)
            assert not waiting.done()
            master.dispatcher.set_status(RUNNING, status)
        assert await waiting is JobStatus.FINISHED


async def test_errors_arrive_with_their_type_and_message(kind: str) -> None:
    pauses = Pauses()
    async with Master().serving() as url, client(kind, url, pauses=pauses) as stoker:
        with pytest.raises(NotFound, match=f"no job with id {UNKNOWN}"):
            await stoker.job(UNKNOWN)
        with pytest.raises(Conflict, match="has ended as FINISHED"):
            await stoker.cancel(FINISHED)
        with pytest.raises(InvalidInput, match="32 hexadecimal digits"):
            await stoker.status("x/../y")
        with pytest.raises(InvalidInput, match="the graph has no sink"):
            await stoker.submit(new_graph(vertices=()))
    assert pauses.seconds == []


async def test_an_unreachable_master_is_explained_after_the_retries(kind: str) -> None:
    """The message names the URL and what to do (REST-25)."""
    pauses = Pauses()
    url = unused_url()
    async with client(kind, url, pauses=pauses) as stoker:
        with pytest.raises(Unavailable) as raised:
            await stoker.jobs()
    message = str(raised.value)
    assert f"cannot reach a Stoker master at {url}: connection refused" in message
    assert "is it running? (stoker cluster up)" in message
    assert pauses.seconds == [0.5, 0.5], "nobody has ever answered there"


async def test_a_full_disk_is_told_at_once(kind: str) -> None:
    master = Master()
    master.dispatcher.refusal = StorageFull("cannot write it: the disk is full; free some space")
    pauses = Pauses()
    async with master.serving() as url, client(kind, url, pauses=pauses) as stoker:
        with pytest.raises(StorageFull, match="the disk is full"):
            await stoker.jobs()
    assert pauses.seconds == []


async def test_a_call_is_repeated_until_there_is_a_leader(kind: str) -> None:
    """An answer 503 is no final answer (REST-25)."""
    master = Master()
    master.dispatcher.refusal = NoLeader("no master leads")

    def elect() -> None:
        master.dispatcher.refusal = None

    pauses = Pauses(then=elect)
    async with master.serving() as url, client(kind, url, pauses=pauses) as stoker:
        assert len(await stoker.jobs()) == 4
    assert pauses.seconds == [7.0]


async def test_a_lasting_lack_of_a_leader_is_reported_with_the_servers_message(kind: str) -> None:
    """After the last retry the client hands on what the master said (REST-25)."""
    async with Master(leading=False).serving() as url, client(kind, url) as stoker:
        with pytest.raises(Unavailable, match="no master leads at the moment"):
            await stoker.overview()


async def test_the_next_master_is_tried_without_a_pause(kind: str) -> None:
    pauses = Pauses()
    async with (
        Master().serving() as url,
        client(kind, f"{unused_url()},{url}", pauses=pauses) as stoker,
    ):
        assert len(await stoker.jobs()) == 4
        assert len(await stoker.jobs()) == 4
    assert set(pauses.seconds) <= {0.0}
    assert len(pauses.seconds) == 1


async def test_an_upload_above_the_limit_fails_and_names_the_option_to_raise(
    kind: str, tmp_path: Path
) -> None:
    """The client sees the refusal although it was still sending (REST-04)."""
    content = b"x" * 20_000_000
    file = tmp_path / "big"
    file.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    artifact = Artifact(name="big", kind=ArtifactKind.FILE, sha256=digest, size=len(content))
    options = RestOptions(bind_port="0", max_content_length=ByteSize(1_000_000))
    async with Master(options=options).serving() as url, client(kind, url) as stoker:
        with pytest.raises(TooLarge, match=r"rest\.server\.max-content-length"):
            await stoker.submit(new_graph(artifacts=(artifact,)), {digest: file})


async def test_an_answer_above_the_limit_fails_and_names_the_option_to_raise(kind: str) -> None:
    """The limit is the client's own (REST-04)."""
    options = ClientOptions(max_content_length=ByteSize(100))
    async with Master().serving() as url, client(kind, url, options) as stoker:
        with pytest.raises(TooLarge, match=r"rest\.client\.max-content-length"):
            await stoker.jobs()


async def test_a_savepoint_is_shown(kind: str, tmp_path: Path) -> None:
    manifest = SavepointManifest(
        savepoint_id="1",
        kind="savepoint",
        job_id=RUNNING,
        job_name="clicks",
        created_at=5,
        queries=(),
        files=(SavedFile(path="graph.json", size=7, sha256="0" * 64),),
    )
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / MANIFEST).write_bytes(encode_manifest(manifest))
    async with Master().serving() as url, client(kind, url) as asked:
        shown = await asked.show_savepoint(str(tmp_path / "one"))
        with pytest.raises(InvalidInput, match="no such directory"):
            await asked.show_savepoint(str(tmp_path / "two"))
    assert (shown.manifest, shown.size_bytes) == (manifest, 7)


async def test_a_client_waits_for_a_savepoint_until_its_operation_timeout(kind: str) -> None:
    dispatcher = SlowSavepoints()
    options = RestOptions(bind_port="0", shutdown_timeout=timedelta())
    master = Master(dispatcher=dispatcher, options=options)
    impatient = replace(QUICK, operation_timeout=timedelta())
    pauses = Pauses()
    async with master.serving() as url:
        async with client(kind, url, impatient, pauses) as stoker:
            with pytest.raises(CallTimedOut, match=r"raise client\.operation-timeout"):
                await stoker.savepoint(RUNNING)
        assert pauses.seconds == []
        done = Pauses(then=dispatcher.finish)
        async with client(kind, url, pauses=done) as stoker:
            assert await stoker.savepoint(RUNNING) == "/savepoints/1"
        assert set(done.seconds) == {OPERATION_POLL_SECONDS}


class SlowSavepoints(DispatcherInMemory):
    """A dispatcher whose savepoints complete when the test calls `finish`."""

    def __init__(self) -> None:
        super().__init__()
        self.done = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def finish(self) -> None:
        """May be called from any thread: the blocking client runs in a thread of its own."""
        self._loop.call_soon_threadsafe(self.done.set)

    async def trigger_savepoint(
        self, job_id: JobId, trigger_id: str, request: SavepointRequest
    ) -> None:
        await self.job_details(job_id)

    async def savepoint_status(
        self, job_id: JobId, trigger_id: str, seconds: float
    ) -> SavepointStatus:
        await self.done.wait()
        return SavepointStatus(done=True, taken=SavepointTaken(path="/savepoints/1"))


async def test_a_missing_answer_is_a_timeout(kind: str) -> None:
    options = ClientOptions(timeout=timedelta(seconds=0.05))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with client(kind, url, options) as stoker:
            with pytest.raises(CallTimedOut, match=r"no answer within 0\.05 s"):
                await stoker.jobs()


async def test_a_client_leaves_a_frozen_master_for_one_that_answers(
    kind: str, tmp_path: Path
) -> None:
    """The kernel accepts connections and requests for a process that is stopped."""
    options = ClientOptions(silence=timedelta(seconds=0.1))
    content = b"x" * 6_000_000
    file = tmp_path / "big"
    file.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    big = Artifact(name="big", kind=ArtifactKind.FILE, sha256=digest, size=len(content))
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        frozen_url = f"http://127.0.0.1:{frozen.getsockname()[1]}"
        master = Master()
        async with asyncio.timeout(60), master.serving() as url:
            async with client(kind, f"{frozen_url},{url}", options) as stoker:
                assert len(await stoker.jobs()) == 4
            async with client(kind, f"{frozen_url},{url}", options) as stoker:
                await stoker.cancel(RUNNING)
            async with client(kind, f"{frozen_url},{url}", options) as stoker:
                await stoker.submit(new_graph(artifacts=(big,)), {digest: file})
    assert master.dispatcher.cancelled == [RUNNING]
    assert master.blobs.content[NEW, digest] == content


async def test_a_server_that_is_not_a_stoker_master_is_recognized(kind: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with client(kind, f"http://127.0.0.1:{port}") as stoker:
            with pytest.raises(InvalidOption, match="is not a Stoker master"):
                await stoker.jobs()
