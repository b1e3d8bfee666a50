"""Leader election among simulated processes, on virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import virtual, wait_until_quiet
from stoker.aio.scope import TaskScope
from stoker.core.errors import CoordinatorUnavailable, LeadershipLost, SessionExpired
from stoker.core.ids import Ids, ResourceId
from stoker.ha import keys
from stoker.ha.coordinator import Create, Delete, Put
from stoker.ha.election import LeaderElection
from stoker.ha.leadership import Leadership
from stoker.ha.memory import Loss, MemoryCoordination
from stoker.ha.publication import LeaderAddress
from stoker.ha.record import decode_record
from stoker.testing.virtual_time import run_virtual


class Process:
    """A process that records the leaderships and the errors of its components."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self.name = name
        self.cluster = cluster
        self.session = cluster.coordination.session()
        self.election = LeaderElection(self.session, process=ResourceId(name), ids=cluster.ids)
        self.granted: list[Leadership] = []
        self.ended: list[Leadership] = []
        self.errors: list[Exception] = []
        self.running: asyncio.Task[None] | None = None
        self.takes_long_to_stop = 0.0

    def start(self, *components: str) -> "Process":
        self.running = self.cluster.scope.spawn(self.name, self.record_errors(self.election.run()))
        for component in components:
            self.run_while_leading(component)
        return self

    def run_while_leading(self, component: str) -> asyncio.Task[None]:
        contending = self.record_errors(self.election.run_while_leading(component, self.lead))
        return self.cluster.scope.spawn(f"{self.name}/{component}", contending)

    async def record_errors(self, part: Coroutine[Any, Any, None]) -> None:
        """Records the error of a component that would end a real process; the others continue."""
        try:
            await part
        except Exception as error:
            self.errors.append(error)

    async def lead(self, leadership: Leadership) -> None:
        self.granted.append(leadership)
        try:
            await leadership.publish(f"{self.name}/{leadership.component}")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self.takes_long_to_stop)
            self.ended.append(leadership)

    @property
    def leads(self) -> bool:
        return len(self.granted) > len(self.ended)


class Cluster:
    def __init__(self, scope: TaskScope) -> None:
        self.scope = scope
        self.coordination = MemoryCoordination(session_timeout=10)
        self.ids = Ids(random.Random(7))
        self.observer = self.coordination.session()
        self.processes: list[Process] = []

    def process(self) -> Process:
        process = Process(self, f"master-{len(self.processes)}")
        self.processes.append(process)
        return process

    @property
    def leaders(self) -> list[Process]:
        return [process for process in self.processes if process.leads]

    async def published(self, component: str = "dispatcher") -> LeaderAddress | None:
        found = await self.observer.read(keys.leader(component))
        return decode_record(found.value, LeaderAddress, "leader") if found else None


@asynccontextmanager
async def new_cluster() -> AsyncIterator[Cluster]:
    async with TaskScope("cluster") as scope:
        yield Cluster(scope)


async def start_leader_and_standby(cluster: Cluster) -> tuple[Process, Process]:
    leader = cluster.process().start("dispatcher")
    await wait_until_quiet()
    return leader, cluster.process().start("dispatcher")


async def lose_and_regain_contact(cluster: Cluster, process: Process) -> None:
    cluster.coordination.suspend(process.session)
    await wait_until_quiet()
    cluster.coordination.resume(process.session)
    await wait_until_quiet()


@virtual
async def test_an_address_is_published_only_after_its_owner_confirmed():
    """The component confirms its leadership first; then others can find it (LEAD-01)."""
    async with new_cluster() as cluster:
        process = cluster.process()
        confirm = asyncio.Event()

        async def lead(leadership: Leadership) -> None:
            process.granted.append(leadership)
            await confirm.wait()
            await leadership.publish("here")
            await asyncio.Event().wait()

        process.start()
        cluster.scope.spawn("contend", process.election.run_while_leading("dispatcher", lead))
        await wait_until_quiet()
        [leadership] = process.granted
        assert leadership.is_valid
        assert await cluster.published() is None
        confirm.set()
        await wait_until_quiet()
        published = await cluster.published()
        assert published is not None
        assert (published.address, published.token) == ("here", leadership.token)
        assert published.process == "master-0"


@virtual
async def test_a_suspended_leader_is_cancelled_and_its_leaderships_are_invalid():
    """Both steps are done before another process can lead (LEAD-02)."""
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher", "rest")
        await wait_until_quiet()
        assert len({leadership.token.session for leadership in process.granted}) == 2
        cluster.coordination.suspend(process.session)
        assert not any(leadership.is_valid for leadership in process.granted)
        await wait_until_quiet()
        assert len(process.ended) == 2
        assert not any(leadership.is_valid for leadership in process.granted)


@virtual
async def test_all_components_of_a_process_share_one_election():
    """All components of a process lead under the same epoch (LEAD-03)."""
    async with new_cluster() as cluster:
        first = cluster.process().start("dispatcher", "resourcemanager", "rest")
        second = cluster.process().start("dispatcher", "resourcemanager", "rest")
        await wait_until_quiet()
        assert {leadership.component for leadership in first.granted} == {
            "dispatcher",
            "resourcemanager",
            "rest",
        }
        assert len({leadership.token.epoch for leadership in first.granted}) == 1
        assert not second.granted


@virtual
async def test_a_contender_that_joins_a_leading_process_is_granted_at_once():
    """The new contender needs no election of its own (LEAD-04)."""
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")
        await wait_until_quiet()
        process.run_while_leading("jobmaster/1")
        await wait_until_quiet()
        assert [leadership.component for leadership in process.granted] == [
            "dispatcher",
            "jobmaster/1",
        ]
        assert process.granted[0].token.epoch == process.granted[1].token.epoch


@virtual
async def test_a_contender_that_leaves_stops_leading_and_its_address_is_deleted():
    """Later grants do not reach a contender that has left (LEAD-05, X-LEAD-03)."""
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")
        job = process.run_while_leading("jobmaster/1")
        await wait_until_quiet()
        assert await cluster.published("jobmaster/1") is not None
        job.cancel()
        await wait_until_quiet()
        assert [leadership.component for leadership in process.ended] == ["jobmaster/1"]
        assert await cluster.published("jobmaster/1") is None
        assert await cluster.published("dispatcher") is not None
        await lose_and_regain_contact(cluster, process)
        assert [leadership.component for leadership in process.granted].count("jobmaster/1") == 1


@virtual
async def test_an_address_that_may_have_been_written_is_deleted_too():
    """The contender leaves before it learns that its address was written."""
    async with new_cluster() as cluster:
        cluster.coordination.tolerates_suspension = True
        process = cluster.process().start("dispatcher")
        await wait_until_quiet()
        cluster.coordination.lose_next_commit(process.session, Loss.AFTER_APPLYING)
        job = process.run_while_leading("jobmaster/1")
        await asyncio.sleep(0.1)
        assert await cluster.published("jobmaster/1") is not None
        cluster.coordination.resume(process.session)
        job.cancel()
        await wait_until_quiet()
        assert await cluster.published("jobmaster/1") is None
        assert process.leads


@virtual
async def test_a_confirmation_that_comes_too_late_is_ignored():
    """The process no longer leads, so nothing is published (LEAD-06)."""
    async with new_cluster() as cluster:
        old, new = cluster.process().start("dispatcher"), cluster.process().start("dispatcher")
        await wait_until_quiet()
        [leadership] = old.granted
        cluster.coordination.expire(old.session)
        await wait_until_quiet()
        await leadership.publish("too late")
        published = await cluster.published()
        assert published is not None
        assert published.address == "master-1/dispatcher"
        assert new.leads


@virtual
async def test_a_confirmation_of_the_previous_grant_is_ignored():
    """The same process leads again, under a newer grant (LEAD-06)."""
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")
        await wait_until_quiet()
        cluster.coordination.suspend(process.session)
        await wait_until_quiet()
        cluster.coordination.resume(process.session)
        await wait_until_quiet()
        first, second = process.granted
        assert second.token.epoch > first.token.epoch
        assert second.token.session != first.token.session
        await first.publish("too late")
        published = await cluster.published()
        assert published is not None
        assert published.token == second.token


@virtual
async def test_a_changed_or_deleted_address_is_written_back():
    """This includes an address that another session owns (LEAD-07, X-LEAD-05)."""
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")
        await wait_until_quiet()
        before = await cluster.published()
        key = keys.leader("dispatcher")
        for ops in (
            [Delete(key)],
            [Put(key, b"rubbish")],
            [Delete(key), Create(key, b"foreign", ephemeral=True)],
            [Delete(key), Create(key, b"nobody's")],
        ):
            await cluster.observer.commit(ops)
            await wait_until_quiet()
            assert await cluster.published() == before
            found = await cluster.observer.read(key)
            assert found is not None
            assert found.owner == process.session.session


@virtual
async def test_an_address_is_written_once_for_each_leadership():
    """The leader does not react to its own write by writing again (X-LEAD-05)."""
    async with new_cluster() as cluster:
        cluster.process().start("dispatcher")
        await asyncio.sleep(1000)
        found = await cluster.observer.read(keys.leader("dispatcher"))
        assert found is not None
        assert found.version == 0


@virtual
async def test_a_standby_writes_nothing_and_its_end_leaves_the_leaders_address_alone():
    """Only the leader publishes addresses (LEAD-07, LEAD-08)."""
    async with new_cluster() as cluster:
        leader, standby = cluster.process().start("dispatcher"), cluster.process()
        await wait_until_quiet()
        standby.start("dispatcher")
        await wait_until_quiet()
        await cluster.observer.commit([Put(keys.leader("dispatcher"), b"rubbish")])
        await wait_until_quiet()
        await standby.session.close()
        await wait_until_quiet()
        published = await cluster.published()
        assert published is not None
        assert published.process == leader.name
        assert leader.leads


@virtual
async def test_a_leadership_is_valid_only_with_contact_and_a_grant():
    """Neither contact nor a grant is enough on its own (LEAD-09)."""
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")
        await wait_until_quiet()
        first = process.granted[0]
        assert first.is_valid
        cluster.coordination.suspend(process.session)
        assert not first.is_valid, "contact is lost"
        await wait_until_quiet()
        cluster.coordination.resume(process.session)
        await wait_until_quiet()
        assert not first.is_valid, "the grant was revoked"
        assert process.granted[-1].is_valid


@virtual
async def test_a_slow_component_delays_only_its_own_next_term():
    """Leadership is a scope: the old scope has ended before the next one begins (LEAD-10)."""
    async with new_cluster() as cluster:
        process = cluster.process()
        slow = cluster.process()
        slow.session, slow.election = process.session, process.election
        slow.takes_long_to_stop = 100.0
        process.start("dispatcher")
        slow.run_while_leading("slow")
        await wait_until_quiet()
        await lose_and_regain_contact(cluster, process)
        assert len(process.granted) == 2
        assert (len(slow.granted), len(slow.ended)) == (1, 0)
        await asyncio.sleep(100)
        assert (len(slow.granted), len(slow.ended)) == (2, 1)


@virtual
async def test_the_end_of_the_session_reaches_every_contender():
    """Every contender ends with the error of the lost session (LEAD-11)."""
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher", "rest")
        await wait_until_quiet()
        cluster.coordination.expire(process.session)
        await wait_until_quiet()
        assert [type(error) for error in process.errors] == [SessionExpired] * 3
        assert len(process.ended) == 2


@virtual
async def test_an_error_of_a_component_is_raised_by_run_while_leading():
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")

        async def lead(_leadership: Leadership) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await process.election.run_while_leading("broken", lead)
        assert process.leads


@virtual
async def test_a_component_that_returns_is_started_again_only_with_the_next_grant():
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")
        terms: list[int] = []

        async def lead(leadership: Leadership) -> None:
            terms.append(leadership.token.epoch)

        cluster.scope.spawn("short", process.election.run_while_leading("short", lead))
        await wait_until_quiet()
        assert len(terms) == 1
        await lose_and_regain_contact(cluster, process)
        assert len(terms) == 2


@virtual
async def test_after_each_end_of_a_leader_exactly_one_other_process_leads():
    """Five leaders end one after the other, until no process is left (LEAD-12, LEAD-17)."""
    async with new_cluster() as cluster:
        epochs: list[int] = []
        for _ in range(5):
            cluster.process().start("dispatcher")
        for _ in range(5):
            await wait_until_quiet()
            [leader] = cluster.leaders
            published = await cluster.published()
            assert published is not None
            assert published.process == leader.name
            epochs.append(published.token.epoch)
            cluster.coordination.expire(leader.session)
        await wait_until_quiet()
        assert cluster.leaders == []
        assert await cluster.published() is None
        assert epochs == sorted(set(epochs))


@virtual
async def test_the_addresses_of_a_dead_session_disappear():
    """Addresses are ephemeral keys of the leader's session (LEAD-13)."""
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")
        await wait_until_quiet()
        cluster.coordination.expire(process.session, tell=False)
        assert await cluster.published() is None


@virtual
async def test_a_suspended_leader_is_revoked_at_once_and_regains_a_new_epoch():
    """The leader never continues under the epoch from before the suspension (LEAD-14)."""
    async with new_cluster() as cluster:
        first, _ = await start_leader_and_standby(cluster)
        cluster.coordination.suspend(first.session)
        await asyncio.sleep(0.001)
        assert not first.leads
        await asyncio.sleep(5)
        assert cluster.leaders == []
        cluster.coordination.resume(first.session)
        await wait_until_quiet()
        assert cluster.leaders == [first]
        assert [leadership.token.epoch for leadership in first.granted] == [0, 1]
        published = await cluster.published()
        assert published is not None
        assert published.token == first.granted[-1].token


@virtual
async def test_a_leader_that_tolerates_suspensions_keeps_leading_without_writing():
    """The session of the leader still excludes every other leader (LEAD-15)."""
    async with new_cluster() as cluster:
        cluster.coordination.tolerates_suspension = True
        first, _ = await start_leader_and_standby(cluster)
        [leadership] = first.granted
        cluster.coordination.suspend(first.session)
        await asyncio.sleep(8)
        assert first.leads
        assert leadership.is_valid
        with pytest.raises(CoordinatorUnavailable):
            await leadership.commit([Create("a", b"")])
        cluster.coordination.resume(first.session)
        await asyncio.sleep(20)
        assert first.granted == [leadership]
        assert cluster.leaders == [first]
        await leadership.commit([Create("a", b"")])


@virtual
async def test_a_suspension_is_tolerated_only_while_no_other_process_can_lead():
    """The tolerance ends when the session may have expired (LEAD-15)."""
    async with new_cluster() as cluster:
        cluster.coordination.tolerates_suspension = True
        first, second = await start_leader_and_standby(cluster)
        [leadership] = first.granted
        cluster.coordination.suspend(first.session)
        await asyncio.sleep(9.99)
        assert leadership.is_valid
        await asyncio.sleep(0.02)
        assert not leadership.is_valid
        await wait_until_quiet()
        assert cluster.leaders == [second]
        cluster.coordination.resume(first.session)
        await wait_until_quiet()
        assert {type(error) for error in first.errors} == {SessionExpired}


@virtual
async def test_a_leader_that_must_write_while_suspended_gives_up_its_term():
    """The leader loses its term, and its process survives (LEAD-15)."""
    async with new_cluster() as cluster:
        cluster.coordination.tolerates_suspension = True
        process = cluster.process()
        terms: list[Leadership] = []

        async def lead(leadership: Leadership) -> None:
            terms.append(leadership)
            await asyncio.sleep(5)
            await leadership.commit([Create(f"term-{len(terms)}", b"")])
            await asyncio.Event().wait()

        process.start()
        contending = process.record_errors(process.election.run_while_leading("dispatcher", lead))
        cluster.scope.spawn("run_while_leading", contending)
        await wait_until_quiet()
        cluster.coordination.suspend(process.session)
        await asyncio.sleep(5)
        assert terms[0].grant.is_revoked
        cluster.coordination.resume(process.session)
        await asyncio.sleep(10)
        assert process.errors == []
        assert len(terms) == 2
        assert await cluster.observer.read("term-2") is not None


@virtual
async def test_a_leader_suspended_for_longer_than_its_session_lasts_is_followed_by_another():
    async with new_cluster() as cluster:
        first, second = await start_leader_and_standby(cluster)
        cluster.coordination.suspend(first.session)
        await asyncio.sleep(20)
        assert cluster.leaders == [second]
        cluster.coordination.resume(first.session)
        await wait_until_quiet()
        assert cluster.leaders == [second]
        assert {type(error) for error in first.errors} == {SessionExpired}


@virtual
async def test_a_frozen_leaders_late_write_is_refused_in_the_same_transaction():
    """The epoch decides, although the old leader seems to lead (design invariant 4)."""
    async with new_cluster() as cluster:
        old = cluster.process().start("dispatcher")
        await wait_until_quiet()
        [leadership] = old.granted
        # The old leader is frozen: its session lives on, and it notices nothing of all this.
        cluster.coordination.delay_reads(old.session)
        await cluster.observer.commit([Delete(keys.ELECTION)])
        new = cluster.process().start("dispatcher")
        await wait_until_quiet()
        assert new.leads
        assert old.leads
        assert leadership.is_valid
        with pytest.raises(LeadershipLost, match="master-0 leads no longer"):
            await leadership.commit([Create("jobs/late", b"")])
        assert await cluster.observer.read("jobs/late") is None
        await wait_until_quiet()
        assert cluster.leaders == [new]
        published = await cluster.published()
        assert published is not None
        assert published.process == "master-1"


@virtual
async def test_a_leader_that_reads_its_old_candidacy_does_not_lead_again():
    """Every leader's election key has version 0, so only the epoch identifies the leader."""
    async with new_cluster() as cluster:
        old = cluster.process().start("dispatcher")
        await wait_until_quiet()
        cluster.coordination.delay_reads(old.session)
        cluster.coordination.suspend(old.session)
        await cluster.observer.commit([Delete(keys.ELECTION)])
        new = cluster.process().start("dispatcher")
        await wait_until_quiet()
        cluster.coordination.resume(old.session)
        await wait_until_quiet()
        assert cluster.leaders == [new]
        assert (len(old.granted), len(new.granted)) == (1, 1)
        epoch = await cluster.observer.read(keys.EPOCH)
        assert epoch is not None
        assert epoch.version == new.granted[0].token.epoch


@virtual
async def test_a_leader_whose_election_key_is_deleted_gives_way():
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")
        await wait_until_quiet()
        await cluster.observer.commit([Delete(keys.ELECTION)])
        await wait_until_quiet()
        first, second = process.granted
        assert process.ended == [first]
        assert second.token.epoch == first.token.epoch + 1


@virtual
async def test_a_conflict_on_another_key_does_not_end_the_leadership():
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")
        await wait_until_quiet()
        [leadership] = process.granted
        assert await leadership.commit([Create("a", b""), Put("a", b"")]) == [0, 1]
        with pytest.raises(Exception, match="not at version 7"):
            await leadership.commit([Put("a", b"", 7)])
        assert leadership.is_valid


@virtual
async def test_a_write_during_a_suspension_ends_the_term_and_not_the_process():
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")
        terms: list[Leadership] = []

        async def lead(leadership: Leadership) -> None:
            terms.append(leadership)
            if len(terms) == 1:
                cluster.coordination.lose_next_commit(process.session, Loss.BEFORE_APPLYING)
                await leadership.commit([Create("a", b"")])
            await asyncio.Event().wait()

        contending = cluster.scope.spawn(
            "writer", process.election.run_while_leading("writer", lead)
        )
        await wait_until_quiet()
        cluster.coordination.resume(process.session)
        await wait_until_quiet()
        assert len(terms) == 2
        assert not contending.done()


@pytest.mark.parametrize("loss", list(Loss))
def test_an_election_write_with_an_unknown_outcome_is_read_back(loss: Loss):
    async def test() -> None:
        async with new_cluster() as cluster:
            process = cluster.process()
            cluster.coordination.lose_next_commit(process.session, loss)
            process.start("dispatcher")
            await wait_until_quiet()
            assert not process.leads
            cluster.coordination.resume(process.session)
            await wait_until_quiet()
            assert process.leads
            epoch = await cluster.observer.read(keys.EPOCH)
            assert epoch is not None
            assert process.granted[0].token.epoch == epoch.version

    run_virtual(test)


@virtual
async def test_a_leader_that_shuts_down_hands_over_at_once():
    async with new_cluster() as cluster:
        first, second = await start_leader_and_standby(cluster)
        await wait_until_quiet()
        assert first.running is not None
        first.running.cancel()
        await asyncio.sleep(0.01)
        assert cluster.leaders == [second]
        assert [type(error) for error in first.errors] == [LeadershipLost]


@virtual
async def test_two_contenders_of_one_name_are_refused():
    """The first contender keeps its leadership (X-LEAD-01)."""
    async with new_cluster() as cluster:
        process = cluster.process().start("dispatcher")
        await wait_until_quiet()
        with pytest.raises(ValueError, match="dispatcher contends already"):
            await process.election.run_while_leading("dispatcher", process.lead)
        assert process.leads


@virtual
async def test_a_process_without_contenders_does_not_lead():
    """It takes part as soon as a component contends (X-LEAD-02)."""
    async with new_cluster() as cluster:
        idle = cluster.process().start()
        await wait_until_quiet()
        assert cluster.coordination.all_keys() == []
        contending = idle.run_while_leading("dispatcher")
        other = cluster.process()
        await wait_until_quiet()
        other.start("dispatcher")
        await wait_until_quiet()
        assert cluster.leaders == [idle]
        contending.cancel()
        await wait_until_quiet()
        assert cluster.leaders == [other]


FAULTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["suspend", "resume", "expire", "lose", "lose-applied", "delay", "depose", "wait"]
        ),
        st.integers(0, 2),
        st.floats(0, 12),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(faults=FAULTS)
def test_under_any_faults_epochs_rise_and_only_the_newest_leader_writes(
    faults: list[tuple[str, int, float]],
):
    """After the faults exactly one process leads (X-LEAD-07, LEAD-12; design invariant 4)."""

    async def test() -> None:
        async with new_cluster() as cluster:
            processes = [cluster.process().start("dispatcher") for _ in range(3)]
            for fault, number, pause in faults:
                await inject(cluster, processes, fault, number)
                await asyncio.sleep(pause)
                await only_the_newest_writes(cluster)
            for process in processes:
                cluster.coordination.heal(process.session)
            # The sessions of all other processes may have ended.
            cluster.process().start("dispatcher")
            await asyncio.sleep(60)
            await only_the_newest_writes(cluster)
            assert len(cluster.leaders) == 1
            published = await cluster.published()
            assert published is not None
            assert published.process == cluster.leaders[0].name

    run_virtual(test)


async def inject(cluster: Cluster, processes: list[Process], fault: str, number: int) -> None:
    session = processes[number].session
    match fault:
        case "suspend":
            cluster.coordination.suspend(session)
        case "resume":
            cluster.coordination.resume(session)
        case "expire":
            cluster.coordination.expire(session)
            processes[number] = cluster.process().start("dispatcher")
        case "lose":
            cluster.coordination.lose_next_commit(session, Loss.BEFORE_APPLYING)
        case "lose-applied":
            cluster.coordination.lose_next_commit(session, Loss.AFTER_APPLYING)
        case "delay":
            cluster.coordination.delay_reads(session)
        case "depose":
            if await cluster.observer.read(keys.ELECTION) is not None:
                await cluster.observer.commit([Delete(keys.ELECTION)])


async def only_the_newest_writes(cluster: Cluster) -> None:
    epoch = await cluster.observer.read(keys.EPOCH)
    granted = [leadership for process in cluster.processes for leadership in process.granted]
    epochs = [leadership.token.epoch for leadership in granted]
    assert len(set(epochs)) == len(epochs)
    for leadership in granted:
        if epoch is not None and leadership.token.epoch < epoch.version:
            with pytest.raises(Exception, match=r"leads no longer|no contact|connection was lost"):
                # The process may not know of its successor: the coordinator must refuse the write.
                await leadership.grant.commit_until_superseded([Create("late", b"")])
    assert "late" not in cluster.coordination.all_keys()
