"""Which region gets which slot, and which slots are released."""

from stoker.core.graph import RestartPolicy
from stoker.core.states import ExecutionState
from stoker.jobmaster.attempts import ReleaseSlots, RestartAfter
from unit.jobmaster.graphs import BOOM, deployments, ended, graph_with_sinks, slot, started


def test_regions_get_slots_in_the_order_of_their_requests() -> None:
    """A later offer continues where the first one ended (POOL-05)."""
    job, [first] = started(graph_with_sinks("one", "two", "three"), slots=1)
    _, commands = job.slots_offered([slot(1), slot(2)], 5)
    assert [each.region for each in (first, *deployments(commands))] == ["one", "two", "three"]


def test_a_restarted_region_prefers_its_previous_executor() -> None:
    """It takes that one although another slot is free (POOL-11)."""
    policy = RestartPolicy(strategy="fixed-delay", attempts=2, delay_seconds=1)
    job, _ = started(graph_with_sinks("one", "two"), policy, slots=0)
    _, commands = job.slots_offered([slot(0, "here"), slot(1, "there")], 4)
    restarts = [
        command
        for deployed in deployments(commands)
        for command in job.attempt_ended(ended(deployed, ExecutionState.FAILED, BOOM), 6)[1]
        if isinstance(command, RestartAfter)
    ]
    # The first free slot is not the one that the second region had.
    [again] = deployments(job.restart_due(restarts[1].region, restarts[1].attempt, 8))
    assert (again.region, again.slot) == ("two", slot(1, "there"))


def test_only_slots_beyond_the_need_are_released() -> None:
    """Surplus slots are released at once, because other jobs may wait for them (POOL-10)."""
    job, [first, second] = started(graph_with_sinks("one", "two"), slots=2)
    _, commands = job.attempt_ended(ended(first, ExecutionState.FINISHED), 6)
    assert commands == [ReleaseSlots((first.slot,))]
    assert job.slots_needed() == 1
    _, commands = job.attempt_ended(ended(second, ExecutionState.FINISHED), 7)
    assert commands == [ReleaseSlots((second.slot,))]
