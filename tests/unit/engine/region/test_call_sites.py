"""Which part of a plan is at fault, and the line that made it."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.connect.plan import LogicalPlan

from stoker.engine.region.call_sites import innermost_failure, parts_of, record_call_sites


class Part(LogicalPlan):
    """A part of a plan that uses others; `broken` if its own content is at fault."""

    def __init__(self, *parts: LogicalPlan, broken: bool = False) -> None:
        super().__init__(None)
        self.parts = list(parts)
        self.broken = broken


def can_resolve(plan: LogicalPlan) -> bool:
    assert isinstance(plan, Part)
    return not plan.broken and all(map(can_resolve, plan.parts))


def chain_of(length: int, broken: int) -> Part:
    plan = Part(broken=broken == 0)
    for number in range(1, length):
        plan = Part(plan, broken=broken == number)
    return plan


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_in_a_chain_the_part_at_fault_is_found_with_few_checks(sizes: tuple[int, int]) -> None:
    length, broken = sizes
    checks = count()

    def check(plan: LogicalPlan) -> bool:
        next(checks)
        return can_resolve(plan)

    found = innermost_failure(chain_of(length, broken), check)
    assert isinstance(found, Part)
    assert found.broken
    assert next(checks) <= length.bit_length() + 1


plans = st.recursive(
    st.builds(Part, broken=st.booleans()),
    lambda parts: st.builds(
        lambda inner, broken: Part(*inner, broken=broken),
        st.lists(parts, min_size=1, max_size=3),
        st.booleans(),
    ),
    max_leaves=12,
)


@given(plans.filter(lambda plan: not can_resolve(plan)))
def test_the_part_that_is_found_fails_and_none_of_its_own_parts_does(plan: Part) -> None:
    found = innermost_failure(plan, can_resolve)
    assert not can_resolve(found)
    assert all(map(can_resolve, parts_of(found)))


def test_a_part_of_a_plan_keeps_the_line_of_the_code_that_made_it() -> None:
    record_call_sites()
    record_call_sites()
    part = Part()
    assert part._stoker_call_site.startswith(f"{__file__} line ")  # type: ignore[attr-defined]
