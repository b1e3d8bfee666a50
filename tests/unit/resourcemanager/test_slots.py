"""The slot manager, event by event and under random events."""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from stoker.core.ids import AllocationId, Ids, InstanceId, JobId
from stoker.gateways.resourcemanager import SlotReport, SlotStatus
from stoker.resourcemanager.slots import SlotAssignment, SlotManager
from stoker.resourcemanager.wait_reason import wait_reason_of

ONE, TWO = JobId("1" * 32), JobId("2" * 32)
HERE, THERE = InstanceId("here"), InstanceId("there")
ALL = {ONE, TWO}


def empty(slots: int) -> SlotReport:
    return SlotReport(slots=tuple(SlotStatus(index=index) for index in range(slots)))


def manager(**slots: int) -> SlotManager:
    made = SlotManager(Ids(random.Random(1)))
    for name, count in slots.items():
        made.register(InstanceId(name), empty(count))
    return made


def taken(assignment: SlotAssignment, slots: int = 2) -> SlotReport:
    return SlotReport(
        slots=tuple(
            SlotStatus(index=index, job_id=assignment.job_id, allocation=assignment.allocation)
            if index == assignment.slot
            else SlotStatus(index=index)
            for index in range(slots)
        )
    )


def test_slots_are_requested_for_exactly_what_is_missing_and_spread_out() -> None:
    """A repeated declaration requests nothing more (SM-01, SM-02, SM-03)."""
    slots = manager(here=2, there=2)
    slots.declare(ONE, 2)
    assert {each.instance for each in slots.assign(ALL)} == {HERE, THERE}
    assert slots.assign(ALL) == [], "the requested slots are on their way"
    slots.declare(ONE, 2)
    assert slots.assign(ALL) == [], "a repeated declaration is the same need"


def test_scarce_slots_are_spread_over_jobs_and_the_others_learn_why_they_wait() -> None:
    """A job that lacks a slot learns why (SM-04)."""
    slots = manager(here=2)
    slots.declare(ONE, 2)
    slots.declare(TWO, 2)
    assert [each.job_id for each in slots.assign(ALL)] == [ONE, TWO]
    wait_reason = wait_reason_of(slots, ONE)
    assert wait_reason is not None
    assert wait_reason.slots_obtainable
    assert wait_reason.text == "needs 1 more slot; 0 of 2 are free; 1 other job waits as well"


def test_a_job_learns_which_task_executors_drain() -> None:
    slots = manager(here=1, there=1)
    slots.declare(ONE, 1)
    for instance in (HERE, THERE):
        slots.drain(instance)
    reasons = [wait_reason_of(slots, ONE, draining=names) for names in (["te-1"], ["te-1", "te-2"])]
    assert [reason.text if reason else "" for reason in reasons] == [
        f"needs 1 more slot; {who} no new tasks; the cluster can offer 0 and the job cannot begin "
        "with fewer than 1: start task executors that have them, or ask for less"
        for who in ("te-1 drains and takes", "te-1, te-2 drain and take")
    ]


def test_a_refused_slot_becomes_free_and_is_assigned_again() -> None:
    """Each assignment has an id of its own (SM-05)."""
    slots = manager(here=1)
    slots.declare(ONE, 1)
    [first] = slots.assign(ALL)
    slots.refused(first)
    [again] = slots.assign(ALL)
    assert again.allocation != first.allocation


def test_an_answer_is_ignored_after_the_slot_has_changed() -> None:
    """The executor registered anew before the answer came (SM-06)."""
    slots = manager(here=2)
    slots.declare(ONE, 1)
    [assignment] = slots.assign(ALL)
    slots.unregister(HERE)
    slots.register(HERE, empty(2))
    slots.acknowledged(assignment)
    slots.refused(assignment)
    assert slots.slots_of(HERE) == (2, 2)


def test_reports_overrule_all_but_pending_slots_and_unknown_slots_are_ignored() -> None:
    """A report may have been sent before the request arrived (SM-07)."""
    slots = manager(here=2)
    slots.declare(ONE, 1)
    [assignment] = slots.assign(ALL)
    slots.report(HERE, empty(2))
    assert slots.slots_of(HERE) == (2, 1), "a report from before the request frees nothing"
    slots.acknowledged(assignment)
    slots.report(HERE, empty(2))
    assert slots.slots_of(HERE) == (2, 2)
    slots.report(THERE, taken(assignment))
    assert slots.overview().slots_total == 2
    slots.report(HERE, taken(assignment))
    assert slots.jobs_on(HERE) == (ONE,)


def test_the_loss_of_an_executor_frees_its_slots_and_the_job_gets_others() -> None:
    """A slot of another executor takes its place (SM-09)."""
    slots = manager(here=1)
    slots.declare(ONE, 1)
    slots.acknowledged(slots.assign(ALL)[0])
    slots.unregister(HERE)
    assert slots.missing(ONE) == 1
    slots.register(THERE, empty(1))
    assert [each.instance for each in slots.assign(ALL)] == [THERE]


def test_a_declined_slot_is_not_assigned_again_before_the_next_declaration() -> None:
    slots = manager(here=2)
    slots.declare(ONE, 1)
    [assignment] = slots.assign(ALL)
    slots.acknowledged(assignment)
    slots.report(HERE, empty(2))
    assert slots.assign(ALL) == []
    slots.declare(TWO, 1)
    assert [each.job_id for each in slots.assign(ALL)] == [TWO]
    slots.declare(ONE, 1)
    assert [each.job_id for each in slots.assign(ALL)] == [ONE]


def test_slots_that_only_the_job_master_sees_are_counted() -> None:
    """The resource manager has lost contact with the executor, the job master has not."""
    slots = manager(here=2)
    slots.declare(ONE, 2, held=1)
    assert len(slots.assign(ALL)) == 1
    assert slots.assign(ALL) == []
    slots.declare(ONE, 2, held=2)
    assert wait_reason_of(slots, ONE) is None


def test_requirements_of_a_job_without_a_master_are_retained_and_not_served() -> None:
    """They are served once a master leads the job again (RM-07)."""
    slots = manager(here=1)
    slots.declare(ONE, 1)
    assert slots.assign(set()) == []
    assert slots.missing(ONE) == 1
    assert len(slots.assign(ALL)) == 1


Step = tuple[int, int, int]


@settings(max_examples=200, deadline=None)
@example([(0, 0, 0), (2, 0, 1), (6, 0, 0), (1, 0, 0), (0, 0, 0), (6, 0, 0), (3, 0, 0), (3, 0, 0)])
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3), st.integers(0, 3)), max_size=60))
def test_under_random_events_no_slot_has_two_owners_and_no_job_more_than_it_asked_for(
    steps: list[Step],
) -> None:
    """The tables of the executors are the truth (design invariant 6)."""
    slots = manager()
    jobs = [JobId(str(number) * 32) for number in range(4)]
    declared: dict[JobId, int] = {}
    tables: dict[InstanceId, dict[int, tuple[JobId, AllocationId]]] = {}
    pending: list[SlotAssignment] = []
    overtaken: set[AllocationId] = set()
    """Requests to executors that were lost and have returned since: an executor may still grant
    such a request, but the slot manager no longer waits and may request the slot again."""

    def report(instance: InstanceId) -> SlotReport:
        table = tables[instance]
        return SlotReport(
            slots=tuple(
                SlotStatus(index=index, job_id=table[index][0], allocation=table[index][1])
                if index in table
                else SlotStatus(index=index)
                for index in range(2)
            )
        )

    for kind, which, number in steps:
        instance = InstanceId(f"executor-{which}")
        match kind:
            case 0:
                tables.setdefault(instance, {})
                slots.register(instance, report(instance))
            case 1:
                slots.unregister(instance)
                tables.pop(instance, None)
                overtaken |= {each.allocation for each in pending if each.instance == instance}
            case 2:
                slots.declare(jobs[which], number)
                declared[jobs[which]] = number
            case 3 if pending:
                assignment = pending.pop(number % len(pending))
                table = tables.get(assignment.instance)
                if table is None or assignment.slot in table:
                    slots.refused(assignment)
                else:
                    table[assignment.slot] = (assignment.job_id, assignment.allocation)
                    slots.acknowledged(assignment)
            case 4 if instance in tables:
                tables[instance].pop(number % 2, None)
                slots.report(instance, report(instance))
            case 5 if instance in tables:
                slots.report(instance, report(instance))
            case _:
                given = slots.assign(set(jobs))
                assert all(slots.held(each.job_id) <= declared[each.job_id] for each in given)
                busy = {
                    (each.instance, each.slot)
                    for each in pending
                    if each.allocation not in overtaken
                }
                assert not busy & {(each.instance, each.slot) for each in given}
                pending += given
        view = slots.overview()
        assert 0 <= view.slots_free <= view.slots_total == 2 * len(tables)
        waiting = {job for job in jobs if slots.missing(job) > 0}
        for job in jobs:
            assert slots.others_waiting(job) == len(waiting - {job})
