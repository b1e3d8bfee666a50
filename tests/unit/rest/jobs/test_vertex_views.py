"""The state of a vertex that several regions share."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.states import ExecutionState
from stoker.rest.jobs.vertex_views import combine_states, count_states

states = st.lists(st.sampled_from(ExecutionState), min_size=1)


@given(states)
def test_a_vertex_with_a_failed_region_is_failed(found: list[ExecutionState]) -> None:
    assert combine_states([*found, ExecutionState.FAILED]) is ExecutionState.FAILED


@given(states)
def test_a_vertex_is_finished_only_with_all_of_its_regions(found: list[ExecutionState]) -> None:
    finished = combine_states(found) is ExecutionState.FINISHED
    assert finished == (set(found) == {ExecutionState.FINISHED})


@given(states)
def test_the_joint_state_does_not_depend_on_the_order(found: list[ExecutionState]) -> None:
    assert combine_states(found) is combine_states(found[::-1])


@given(states)
def test_a_vertex_has_the_state_on_which_its_regions_agree(found: list[ExecutionState]) -> None:
    assert combine_states([found[0]] * 3) is found[0]


@given(st.lists(st.sampled_from(ExecutionState)))
def test_counts_name_every_state_and_add_up(found: list[ExecutionState]) -> None:
    counts = count_states(found)
    assert set(counts) == set(ExecutionState)
    assert sum(counts.values()) == len(found)
