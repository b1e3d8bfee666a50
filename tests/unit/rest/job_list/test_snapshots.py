"""Snapshots of the job list: shared by concurrent requests, never older than the request."""

import asyncio
from dataclasses import replace

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import NoLeader
from stoker.core.graph import JobType
from stoker.core.ids import JobId, SessionId
from stoker.core.results import JobSummary
from stoker.core.states import JobStatus
from stoker.gateways.dispatcher import DispatcherGateway, JobsSince
from stoker.rest.app import build_app
from stoker.rest.http import compression
from stoker.rest.job_list.query import JobQuery
from stoker.rest.job_list.snapshots import (
    MAX_PAUSE_SECONDS,
    PAUSE_FACTOR,
    JobListSnapshot,
    SharedSnapshots,
    Throttle,
)
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import NEW, new_graph
from stoker.testing.virtual_time import run_virtual

WHOLE = JobQuery()


class SlowDispatcher(DispatcherGateway):
    """A dispatcher that reads its jobs when the call arrives and answers after a delay."""

    def __init__(self, *delays: float) -> None:
        self.delays = list(delays)
        self.accepted: list[JobSummary] = []
        self.asked = 0
        self.refusal: NoLeader | None = None
        self.leader = SessionId("leader")

    def accept(self, number: int) -> JobId:
        job_id = JobId(f"{number:032x}")
        self.accepted.append(
            JobSummary(
                job_id=job_id,
                name="copy",
                job_type=JobType.BATCH,
                status=JobStatus.RUNNING,
                start=number,
            )
        )
        return job_id

    async def jobs_since(
        self, leader: SessionId | None, revision: int, live_revision: int = -1
    ) -> JobsSince:
        self.asked += 1
        if self.refusal is not None:
            raise self.refusal
        followed = leader == self.leader
        known = max(live_revision, 0) if followed else 0
        new = tuple(self.accepted[known:])
        now = len(self.accepted)
        await asyncio.sleep(self.delays.pop() if self.delays else 0)
        return JobsSince(
            leader=self.leader,
            revision=0,
            live=new,
            whole=not followed,
            live_revision=now,
            live_whole=not followed,
        )


async def take_snapshot(snapshots: SharedSnapshots, dispatcher: SlowDispatcher) -> JobListSnapshot:
    async def find() -> DispatcherGateway:
        return dispatcher

    return await snapshots.take(find, lambda: 100)


def listed_ids(snapshot: JobListSnapshot) -> set[JobId]:
    return {job["jid"] for job in msgspec.json.decode(b"".join(snapshot.body(WHOLE)))["jobs"]}


MOMENTS = st.lists(st.integers(0, 60), min_size=1, max_size=8)


@given(
    accepted=MOMENTS, asked=MOMENTS, delays=st.lists(st.integers(0, 30)), spent=st.integers(0, 9)
)
def test_an_accepted_job_is_in_every_list_that_is_requested_afterwards(
    accepted: list[int], asked: list[int], delays: list[int], spent: int
) -> None:
    async def scenario() -> None:
        dispatcher = SlowDispatcher(*(delay / 100 for delay in delays))
        snapshots = SharedSnapshots(Throttle(spent_seconds=spent / 1000))

        async def accept(number: int, at: int) -> None:
            await asyncio.sleep(at / 100)
            dispatcher.accept(number)

        async def ask(at: int) -> None:
            await asyncio.sleep(at / 100)
            before = {job.job_id for job in dispatcher.accepted}
            assert before <= listed_ids(await take_snapshot(snapshots, dispatcher))

        async with asyncio.TaskGroup() as group:
            for number, at in enumerate(accepted):
                group.create_task(accept(number, at))
            for at in asked:
                group.create_task(ask(at))

    run_virtual(scenario())


def test_requests_during_a_snapshot_share_the_next_one() -> None:
    async def scenario() -> None:
        dispatcher, snapshots = SlowDispatcher(1.0, 1.0), SharedSnapshots()
        first = asyncio.create_task(take_snapshot(snapshots, dispatcher))
        await asyncio.sleep(0.5)
        late = dispatcher.accept(1)
        others = [asyncio.create_task(take_snapshot(snapshots, dispatcher)) for _ in range(50)]
        seen = await asyncio.gather(*others)
        assert (await first) is not seen[0]
        assert {id(snapshot) for snapshot in seen} == {id(seen[0])}
        assert late in listed_ids(seen[0])
        assert seen[0].body(WHOLE) is seen[49].body(WHOLE)
        assert dispatcher.asked == 2

    run_virtual(scenario())


def test_the_first_request_does_not_wait_and_the_next_one_at_most_the_longest_pause() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        dispatcher, throttle = SlowDispatcher(), Throttle()
        snapshots = SharedSnapshots(throttle)
        begin = loop.time()
        await take_snapshot(snapshots, dispatcher)
        assert loop.time() == begin
        throttle.spend(60.0)
        await take_snapshot(snapshots, dispatcher)
        assert loop.time() == pytest.approx(begin + MAX_PAUSE_SECONDS)

    run_virtual(scenario())


@given(st.lists(st.floats(0, 1)))
def test_the_pause_grows_with_the_cost_of_the_snapshot_up_to_a_limit(spent: list[float]) -> None:
    throttle = Throttle()
    throttle.begin(5.0)
    for seconds in spent:
        throttle.spend(seconds)
    pause = throttle.next_start - 5.0
    assert pause == pytest.approx(min(MAX_PAUSE_SECONDS, PAUSE_FACTOR * sum(spent)))


def test_a_late_answer_of_a_previous_leader_does_not_replace_that_of_the_next_one() -> None:
    async def scenario() -> None:
        previous, leading, snapshots = SlowDispatcher(1.0), SlowDispatcher(), SharedSnapshots()
        previous.accept(1)
        late = asyncio.create_task(take_snapshot(snapshots, previous))
        await asyncio.sleep(0.5)
        leading.leader = SessionId("next")
        accepted = leading.accept(2)
        assert listed_ids(await take_snapshot(snapshots, leading)) == {accepted}
        assert listed_ids(await late) == {accepted}

    run_virtual(scenario())


def test_a_cancelled_request_does_not_cancel_the_snapshot_of_the_others() -> None:
    async def scenario() -> None:
        dispatcher, snapshots = SlowDispatcher(1.0), SharedSnapshots()
        impatient = asyncio.create_task(take_snapshot(snapshots, dispatcher))
        patient = asyncio.create_task(take_snapshot(snapshots, dispatcher))
        await asyncio.sleep(0.5)
        impatient.cancel()
        assert listed_ids(await patient) == set()

    run_virtual(scenario())


def test_a_failed_snapshot_fails_only_the_requests_that_shared_it() -> None:
    async def scenario() -> None:
        dispatcher, snapshots = SlowDispatcher(), SharedSnapshots()
        dispatcher.refusal = NoLeader("nobody leads")
        both = [asyncio.create_task(take_snapshot(snapshots, dispatcher)) for _ in range(2)]
        answers = await asyncio.gather(*both, return_exceptions=True)
        assert [type(answer) for answer in answers] == [NoLeader, NoLeader]
        dispatcher.refusal = None
        assert listed_ids(await take_snapshot(snapshots, dispatcher)) == set()

    run_virtual(scenario())


async def test_a_submitted_job_is_in_the_next_list_of_its_client() -> None:
    master = Master()
    async with master.in_process() as http:
        await http.get("/jobs/overview")
        graph = msgspec.json.encode(new_graph())
        answer = await http.post("/jobs", files={"graph": (None, graph, "application/json")})
        assert answer.status_code == 202, answer.text
        whole = (await http.get("/jobs/overview")).json()["jobs"]
        page = (await http.get("/jobs/overview?limit=100")).json()["jobs"]
    assert NEW in {job["jid"] for job in whole}
    assert NEW in {job["jid"] for job in page}


async def test_requests_that_share_a_large_list_share_its_compressed_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed: list[bytes] = []
    compress = compression._compress

    def counting(body: bytes) -> bytes:
        packed.append(body)
        return compress(body)

    monkeypatch.setattr(compression, "_compress", counting)
    dispatcher = Gated()
    for number in range(500):
        dispatcher.accept(number)

    async def find() -> DispatcherGateway:
        return dispatcher

    services = replace(Master().services, dispatcher=find)
    transport = httpx.ASGITransport(build_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081") as http:
        first = asyncio.create_task(http.get("/jobs/overview"))
        await dispatcher.arrived.wait()
        others = [asyncio.create_task(http.get("/jobs/overview")) for _ in range(5)]
        dispatcher.gate.set()
        answers = [await first, *(await asyncio.gather(*others))]
    assert {answer.headers["content-encoding"] for answer in answers} == {"gzip"}
    assert {len(answer.json()["jobs"]) for answer in answers} == {500}
    assert len(packed) == 2


class Gated(SlowDispatcher):
    """A dispatcher that answers when the test opens the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.arrived = asyncio.Event(), asyncio.Event()

    async def jobs_since(
        self, leader: SessionId | None, revision: int, live_revision: int = -1
    ) -> JobsSince:
        self.arrived.set()
        await self.gate.wait()
        return await super().jobs_since(leader, revision, live_revision)
