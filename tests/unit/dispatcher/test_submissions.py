"""What an owner may submit: the decisions, and what a leader counts."""

import asyncio
import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import build_graph, virtual, wait_until_quiet
from stoker.core.errors import Forbidden, LimitReached, StorageFull
from stoker.core.graph import Artifact, ArtifactKind, JobGraph
from stoker.core.ids import JobId
from stoker.dispatcher.submissions import MINUTE, Submissions, find_excess, find_forbidden
from stoker.gateways.dispatcher import CallerRights
from stoker.security.submission_limits import NO_LIMITS, SubmissionLimits
from unit.dispatcher.dispatching import new_world

NOW = 10_000_000
counts = st.none() | st.integers(0, 5)
priorities = st.none() | st.integers(-5, 5)
queues = st.sets(st.sampled_from(["*", "default", "adhoc", "nightly"])).map(
    lambda names: tuple(sorted(names))
)
limits = st.builds(
    SubmissionLimits,
    queues=queues,
    max_priority=priorities,
    max_jobs=counts,
    max_submissions=counts,
)


def graph(queue: str = "default", priority: int = 0) -> JobGraph:
    return msgspec.structs.replace(
        build_graph(job_id=JobId("a" * 32)), queue=queue, priority=priority
    )


def ana(given_limits: SubmissionLimits) -> CallerRights:
    return CallerRights(name="ana", limits=given_limits)


def rights(**fields: int) -> CallerRights:
    return CallerRights(name="ana", limits=SubmissionLimits(**fields))


@given(limits, limits)
def test_a_limit_of_a_token_replaces_that_of_its_role(
    own: SubmissionLimits, role: SubmissionLimits
) -> None:
    both = own.or_else(role)
    for name in SubmissionLimits.__struct_fields__:
        chosen, default = getattr(own, name), getattr(role, name)
        is_open = chosen is None or chosen == ()
        assert getattr(both, name) == (default if is_open else chosen)
    assert own.or_else(NO_LIMITS) == own


@given(limits, st.sampled_from(["default", "adhoc", "nightly"]), st.integers(-6, 6))
def test_only_the_queues_and_priorities_of_the_limits_are_allowed(
    given_limits: SubmissionLimits, queue: str, priority: int
) -> None:
    refused = find_forbidden(graph(queue, priority), ana(given_limits))
    queue_fits = not given_limits.queues or {"*", queue} & set(given_limits.queues)
    highest = given_limits.max_priority
    priority_fits = highest is None or priority <= highest
    assert (refused is None) == bool(queue_fits and priority_fits)
    if refused is not None:
        assert "ana" in refused.message
        assert "stoker token limit ana --" in refused.message


def test_the_holder_of_a_certificate_is_told_of_the_limits_of_the_role() -> None:
    given_limits = SubmissionLimits(queues=("adhoc",), max_jobs=0)
    caller = CallerRights(name="ana", credential="certificate", limits=given_limits)
    refused = find_forbidden(graph("default"), caller)
    assert refused is not None
    assert "the certificate ana" in refused.message
    assert "security.rest.limits.queues of its role" in refused.message
    excess = find_excess(caller, unfinished=0, accepted=[], now=NOW)
    assert excess is not None
    assert "security.rest.limits.max-jobs of its role" in excess.message


@given(
    limits,
    st.integers(0, 6),
    st.lists(st.integers(NOW - 2 * MINUTE, NOW + 2 * MINUTE), max_size=8),
)
def test_one_more_job_is_refused_exactly_at_a_limit(
    given_limits: SubmissionLimits, unfinished: int, accepted: list[int]
) -> None:
    refused = find_excess(ana(given_limits), unfinished=unfinished, accepted=accepted, now=NOW)
    lately = [at for at in accepted if abs(NOW - at) < MINUTE]
    is_full = given_limits.max_jobs is not None and unfinished >= given_limits.max_jobs
    most = given_limits.max_submissions
    is_fast = most is not None and len(lately) >= most
    assert (refused is not None) == (is_full or is_fast)
    if refused is not None:
        assert refused.status == 429
        # Waiting alone helps only against too many submissions in a minute.
        assert ("retry_after_seconds" in refused.facts) == (not is_full)


@given(st.integers(1, 5), st.lists(st.integers(NOW - MINUTE, NOW), min_size=1, max_size=8))
def test_whoever_waits_as_long_as_told_is_accepted(most: int, accepted: list[int]) -> None:
    given_limits = SubmissionLimits(max_submissions=most)
    refused = find_excess(ana(given_limits), unfinished=0, accepted=accepted, now=NOW)
    if refused is None:
        return
    later = NOW + 1000 * refused.facts["retry_after_seconds"]
    assert find_excess(ana(given_limits), unfinished=0, accepted=accepted, now=later) is None


@given(
    st.lists(st.tuples(st.sampled_from(["ana", "bob"]), st.sampled_from(["begin", "end"]))),
    st.integers(0, 3),
)
def test_no_order_of_submissions_and_ends_exceeds_the_limit(
    events: list[tuple[str, str]], most: int
) -> None:
    """Submissions in progress count, so that those of one moment cannot all pass the check."""
    submissions = Submissions()
    known = {"ana": 0, "bob": 0}
    in_progress: dict[str, list[object]] = {"ana": [], "bob": []}
    for owner, event in events:
        if event == "begin":
            counted = submissions.counting(
                graph(),
                owner,
                CallerRights(name=owner, limits=SubmissionLimits(max_jobs=most)),
                unfinished=lambda owner=owner: known[owner],  # type: ignore[misc]
                now=NOW,
            )
            try:
                counted.__enter__()
            except LimitReached:
                continue
            in_progress[owner].append(counted)
        elif in_progress[owner]:
            in_progress[owner].pop().__exit__(None, None, None)  # type: ignore[attr-defined]
            known[owner] += 1
        assert known[owner] + len(in_progress[owner]) <= most or most == 0
        assert most > 0 or not in_progress[owner]


@virtual
async def test_of_many_submissions_at_once_as_many_are_accepted_as_the_limit_allows() -> None:
    async with new_world() as world:
        world.master()
        await wait_until_quiet()
        dispatcher = await world.dispatcher()
        answers = await asyncio.gather(
            *(
                dispatcher.submit_job(world.graph(str(number)), "ana", rights(max_jobs=3))
                for number in range(10)
            ),
            return_exceptions=True,
        )
        refused = [each for each in answers if isinstance(each, LimitReached)]
        assert len(refused) == 7
        # Another owner, and the cluster itself, have room.
        await dispatcher.submit_job(
            world.graph("of bob"),
            "bob",
            CallerRights(name="bob", limits=SubmissionLimits(max_jobs=3)),
        )
        await dispatcher.submit_job(world.graph("of a replacement"), "ana")


@virtual
async def test_a_new_leader_counts_the_jobs_of_the_one_before() -> None:
    """Both the jobs that have not ended and those that were accepted in the last minute."""
    async with new_world() as world:
        first = world.master()
        await wait_until_quiet()
        limited = rights(max_jobs=2, max_submissions=3)
        graphs = [world.graph(str(number)) for number in range(2)]
        for each in graphs:
            await (await world.dispatcher()).submit_job(each, "ana", limited)
        await first.stop()
        second = world.master()
        await wait_until_quiet()
        dispatcher = await world.dispatcher()
        with pytest.raises(LimitReached, match="has 2 jobs that have not ended"):
            await dispatcher.submit_job(world.graph("third"), "ana", limited)
        # A repetition is no further job.
        assert (await dispatcher.submit_job(graphs[0], "ana", limited)).repeated
        for job in second.jobs.started:
            job.finish()
        await wait_until_quiet()
        await dispatcher.submit_job(world.graph("third"), "ana", limited)
        with pytest.raises(LimitReached, match="has submitted 3 jobs within a minute") as refused:
            await dispatcher.submit_job(world.graph("fourth"), "ana", limited)
        await asyncio.sleep(refused.value.facts["retry_after_seconds"])
        await dispatcher.submit_job(world.graph("fourth"), "ana", limited)


@virtual
async def test_a_refused_queue_or_priority_leaves_no_record() -> None:
    async with new_world() as world:
        world.master()
        await wait_until_quiet()
        dispatcher = await world.dispatcher()
        limited = CallerRights(
            name="ana", limits=SubmissionLimits(queues=("adhoc",), max_priority=3)
        )
        with pytest.raises(Forbidden, match="may use the queues adhoc, and the job names default"):
            await dispatcher.submit_job(world.graph(), "ana", limited)
        assert (await dispatcher.jobs_since(None, 0)).live == ()


@virtual
async def test_a_full_disk_refuses_new_jobs_and_keeps_nothing_of_them() -> None:
    """What is left of the disk is for the records of the jobs that run."""
    async with new_world() as world:
        world.master()
        await wait_until_quiet()
        dispatcher = await world.dispatcher()
        accepted = world.graph("first")
        await dispatcher.submit_job(accepted)
        content = b"wheel"
        sha256 = hashlib.sha256(content).hexdigest()
        refused = msgspec.structs.replace(
            world.graph("second"),
            artifacts=(
                Artifact(kind=ArtifactKind.FILE, name="w", sha256=sha256, size=len(content)),
            ),
        )
        await world.storage.write(f"blobs/{refused.job_id}/{sha256}", content)
        world.storage.free = 1000
        with pytest.raises(StorageFull, match=r"blob\.storage\.min-free"):
            await dispatcher.submit_job(refused)
        assert await world.storage.list(f"blobs/{refused.job_id}") == []
        assert len((await dispatcher.jobs_since(None, 0)).live) == 1
        # A client that repeats an accepted submission learns that it was accepted.
        assert (await dispatcher.submit_job(accepted)).repeated
