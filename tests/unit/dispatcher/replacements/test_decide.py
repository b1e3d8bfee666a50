"""The pure decisions of a replacement: in every scenario, it ends with one running version."""

from dataclasses import dataclass, field, replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from builders import BACK, NEW, OLD, build_details, build_replacement
from stoker.core.checkpoints import (
    CheckpointEntry,
    CheckpointKind,
    Checkpoints,
    CheckpointStatus,
)
from stoker.core.graph import JobType
from stoker.core.ids import JobId
from stoker.core.replacements import Replacement, ReplacementKind, ReplacementPhase
from stoker.core.results import Failure, FailureRecord
from stoker.core.states import JobStatus
from stoker.dispatcher.replacements.decide import (
    START_SECONDS,
    AdvancePhase,
    CancelNewVersion,
    JobSnapshot,
    Observation,
    Repartition,
    StopOldVersion,
    StopProgress,
    SubmitNewVersion,
    SubmitOldVersion,
    WaitForChange,
    decide,
    snapshot_of,
)

ORDER = "0123456789ab"
RUNS = JobSnapshot(status=JobStatus.RUNNING, runs=True)


def plan(phase: ReplacementPhase = ReplacementPhase.STOPPING, **more: object) -> Replacement:
    facts = {"directory": "/saved/", "order": ORDER, "phase": phase}
    return build_replacement(**(facts | more))


def stopped(at: Replacement) -> JobSnapshot:
    return JobSnapshot(status=JobStatus.FINISHED, stopped_at=at.stop_path)


def advanced(at: Replacement, world: Observation, order: str = ORDER) -> Replacement:
    step = decide(at, world, order)
    assert isinstance(step, AdvancePhase), step
    return step.plan


def test_a_running_job_is_stopped_once():
    at = plan()
    assert decide(at, Observation(old=RUNS), ORDER) == StopOldVersion()
    assert decide(at, Observation(old=RUNS, stop=StopProgress()), ORDER) == WaitForChange()
    assert (
        decide(at, Observation(old=RUNS, stop=StopProgress(is_done=True)), ORDER) == WaitForChange()
    )


def test_an_unfinished_stop_of_an_earlier_leader_is_repeated_with_a_new_order():
    following = advanced(plan(), Observation(old=RUNS), order="fresh")
    assert (following.phase, following.order) == (ReplacementPhase.STOPPING, "fresh")


def test_a_stop_that_an_earlier_leader_completed_counts():
    at = plan()
    on_its_way = replace(RUNS, stopped_at=at.stop_path)
    assert decide(at, Observation(old=on_its_way), "fresh") == WaitForChange()
    following = advanced(at, Observation(old=stopped(at)), order="fresh")
    assert following.phase is ReplacementPhase.STARTING
    assert following.savepoint == "/saved/savepoint-aaaaaa-0123456789ab"


def test_a_job_stopped_or_cancelled_by_another_request_is_not_started_again():
    for old in (
        JobSnapshot(status=JobStatus.FINISHED, stopped_at="/saved/savepoint-aaaaaa-other"),
        JobSnapshot(status=JobStatus.CANCELED),
        None,
    ):
        assert advanced(plan(), Observation(old=old)).phase is ReplacementPhase.FAILED


def test_a_failed_stop_leaves_the_job_unchanged():
    world = Observation(old=RUNS, stop=StopProgress(is_done=True, failure="no boundary"))
    following = advanced(plan(), world)
    assert following.phase is ReplacementPhase.FAILED
    assert following.running_id == OLD
    assert "no boundary" in following.reason


def test_a_new_version_that_never_runs_is_given_up_with_its_wait_reason():
    waits = JobSnapshot(status=JobStatus.CREATED, waiting="needs 2 slots, 1 free")
    at = plan(ReplacementPhase.WATCHING)
    assert (
        decide(at, Observation(new=waits, in_phase_seconds=START_SECONDS - 1), ORDER)
        == WaitForChange()
    )
    following = advanced(at, Observation(new=waits, in_phase_seconds=START_SECONDS))
    assert following.phase is ReplacementPhase.ENDING
    assert "needs 2 slots, 1 free" in following.reason


def test_the_old_version_continues_from_the_last_commit_of_the_new_one():
    at = plan(ReplacementPhase.ENDING, savepoint="/s")
    assert decide(at, Observation(new=RUNS), ORDER) == CancelNewVersion()
    ended = JobSnapshot(status=JobStatus.CANCELED, retained="/retained")
    assert advanced(at, Observation(new=ended)).origin == "/retained"
    assert advanced(at, Observation(new=replace(ended, retained=None))).origin is None


def test_a_rescale_repartitions_the_state_between_stop_and_start():
    at = plan(kind=ReplacementKind.RESCALE, partitions=4)
    at = advanced(at, Observation(old=stopped(at)))
    assert decide(at, Observation(), ORDER) == Repartition()
    refused = advanced(at, Observation(refusal="not with this store"))
    assert (refused.phase, refused.reason) == (ReplacementPhase.RETURNING, "not with this store")
    repartitioned = advanced(at, Observation(repartitioned="/repartitioned"))
    assert (repartitioned.phase, repartitioned.origin) == (
        ReplacementPhase.STARTING,
        "/repartitioned",
    )
    # A job that cannot start from the repartitioned state starts from the original state.
    assert advanced(repartitioned, Observation(refusal="no")).origin is None


def test_a_snapshot_has_the_first_failure_and_the_stop_savepoint_of_the_job():
    failures = tuple(
        FailureRecord(failure=Failure(error="Bad", message=text), at=1)
        for text in ("later", "first\nof several lines")
    )
    entry = CheckpointEntry(
        id=1,
        kind=CheckpointKind.STOP_SAVEPOINT,
        status=CheckpointStatus.COMPLETED,
        at=1,
        path="/s",
    )
    details = build_details(
        JobStatus.FINISHED,
        job_id=OLD,
        name="clicks",
        job_type=JobType.STREAMING,
        failures=failures,
        checkpoints=Checkpoints(latest_savepoint=entry),
    )
    assert snapshot_of(details).first_failure == "Bad: first\nof several lines"
    assert snapshot_of(details).stopped_at == "/s"
    taken = msgspec.structs.replace(entry, kind=CheckpointKind.SAVEPOINT)
    other = msgspec.structs.replace(details, checkpoints=Checkpoints(latest_savepoint=taken))
    assert snapshot_of(other).stopped_at is None


# Leaders may die between any two steps; each version may be good, bad or refused.


@dataclass
class Scenario:
    """The jobs of a cluster that a replacement affects."""

    stop_fails: bool
    can_repartition: bool
    new_is: str
    old_is_refused: bool
    jobs: dict[JobId, JobSnapshot] = field(default_factory=lambda: {OLD: RUNS})
    leader: int = 0
    stops: dict[str, StopProgress] = field(default_factory=dict)
    repartitioned: str | None = None
    refusal: str | None = None
    seconds: float = 0.0
    cancelled: list[JobId] = field(default_factory=list)

    def world(self, at: Replacement) -> Observation:
        new = self.jobs.get(NEW)
        steady = self.seconds if new is not None and new.runs else None
        return Observation(
            in_phase_seconds=self.seconds,
            steady_seconds=steady,
            old=self.jobs.get(OLD),
            new=new,
            restored=self.jobs.get(BACK),
            stop=self.stops.get(at.order),
            repartitioned=self.repartitioned,
            refusal=self.refusal,
        )

    def replace_leader(self) -> None:
        """Only the records and the jobs outlive a leader."""
        self.leader += 1
        self.stops.clear()
        self.repartitioned = self.refusal = None
        self.seconds = 0.0

    def carry_out(self, at: Replacement, step: object) -> Replacement:
        match step:
            case AdvancePhase(plan=following):
                if following.phase is not at.phase:
                    self.refusal, self.seconds = None, 0.0
                return following
            case StopOldVersion():
                assert not self.stops
                failure = "no boundary" if self.stop_fails else None
                self.stops[at.order] = StopProgress(is_done=True, failure=failure)
                if failure is None:
                    self.jobs[OLD] = stopped(at)
            case Repartition():
                if self.can_repartition:
                    self.repartitioned = f"/repartitioned-{self.leader}"
                else:
                    self.refusal = "cannot be repartitioned"
            case SubmitNewVersion():
                assert self.jobs[OLD].status is JobStatus.FINISHED
                if self.new_is == "refused":
                    self.refusal = "does not fit"
                elif self.new_is == "good":
                    self.jobs[NEW] = RUNS
                else:
                    self.jobs[NEW] = replace(RUNS, first_failure="Bad: it fails")
            case SubmitOldVersion():
                assert NEW not in self.jobs or self.jobs[NEW].status is JobStatus.CANCELED
                if self.old_is_refused:
                    self.refusal = "gone"
                else:
                    self.jobs[BACK] = RUNS
            case CancelNewVersion():
                self.cancelled.append(NEW)
                self.jobs[NEW] = JobSnapshot(status=JobStatus.CANCELED)
            case _:
                self.seconds += 60
        return at


@given(
    kind=st.sampled_from(ReplacementKind),
    stop_fails=st.booleans(),
    can_repartition=st.booleans(),
    new_is=st.sampled_from(["good", "bad", "refused"]),
    old_is_refused=st.booleans(),
    deaths=st.sets(st.integers(0, 30), max_size=8),
)
def test_every_replacement_ends_with_one_running_version_or_names_its_savepoint(
    kind: ReplacementKind,
    stop_fails: bool,
    can_repartition: bool,
    new_is: str,
    old_is_refused: bool,
    deaths: set[int],
):
    scenario = Scenario(
        stop_fails=stop_fails,
        can_repartition=can_repartition,
        new_is=new_is,
        old_is_refused=old_is_refused,
    )
    at = plan(kind=kind, partitions=4, order="order-0")
    for number in range(60):
        if at.phase.over:
            break
        at = scenario.carry_out(at, decide(at, scenario.world(at), f"order-{scenario.leader}"))
        if number in deaths:
            scenario.replace_leader()
    assert at.phase.over, at
    live = [job for job, seen in scenario.jobs.items() if not seen.status.globally_terminal]
    if at.phase is ReplacementPhase.FAILED and at.savepoint is not None:
        assert live == []
        assert at.savepoint in at.reason
    else:
        assert live == [at.running_id]
    wanted = (
        not stop_fails and new_is == "good" and (can_repartition or kind is ReplacementKind.UPGRADE)
    )
    assert (at.phase is ReplacementPhase.DONE) == wanted
    assert scenario.cancelled.count(NEW) <= 1
