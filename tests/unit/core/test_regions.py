"""How many slots a job can use at once."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from builders import build_graph
from stoker.core.checks.validation import faults_of
from stoker.core.graph import FormatRead, FormatWrite, Sink, Source, Sql, Transform
from stoker.core.regions import Region, regions_of, slots_together, slots_wanted

READ, WRITE = FormatRead(format="parquet", path="/in"), FormatWrite(format="noop")


def step(name: str, *inputs: str) -> Transform:
    return Transform(name=name, inputs=inputs, compute=Sql(query="select 1"), materialized=True)


def test_sinks_of_one_source_run_at_once_and_a_chain_one_after_the_other() -> None:
    sinks = [Sink(name=f"s{n}", input="in", write=WRITE) for n in range(3)]
    assert slots_wanted(build_graph(Source(name="in", read=READ), *sinks)) == 3
    chain = [step("b", "a"), step("c", "b"), Sink(name="out", input="c", write=WRITE)]
    assert slots_wanted(build_graph(Source(name="a", read=READ, materialized=True), *chain)) == 1


def test_the_slot_limit_of_a_job_is_respected() -> None:
    sinks = [Sink(name=f"s{n}", input="in", write=WRITE) for n in range(3)]
    assert slots_wanted(build_graph(Source(name="in", read=READ), *sinks, slots=2)) == 2
    assert slots_wanted(build_graph(Source(name="in", read=READ), *sinks, slots=9)) == 3


def test_a_slot_limit_below_the_number_of_streaming_queries_is_a_fault() -> None:
    source = Source(name="in", read=FormatRead(format="rate"), streaming=True)
    sinks = [Sink(name=f"s{n}", input="in", write=WRITE, trigger="1 second") for n in range(2)]
    job = build_graph(source, *sinks, slots=1)
    assert slots_together(job) == 2
    assert [fault.place for fault in faults_of(job)] == ["slots"]
    assert slots_together(build_graph(Source(name="in", read=READ))) == 0


@given(st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=7))
def test_wanted_slots_are_the_largest_set_of_regions_that_can_run_at_once(
    reads: list[set[int]],
) -> None:
    vertices: list[Source | Transform | Sink] = []
    for number, inputs in enumerate(reads):
        earlier = [f"v{other}" for other in sorted(inputs) if other < number]
        vertices.append(
            step(f"v{number}", *earlier)
            if earlier
            else Source(name=f"v{number}", read=READ, materialized=True)
        )
    job = build_graph(*vertices)
    assert slots_wanted(job) == _widest_by_brute_force(regions_of(job))


def _widest_by_brute_force(regions: tuple[Region, ...]) -> int:
    before: dict[str, set[str]] = {}
    for region in regions:
        before[region.id] = {str(r) for r in region.reads}.union(
            *(before[each] for each in region.reads)
        )
    for size in range(len(regions), 0, -1):
        for some in combinations([region.id for region in regions], size):
            if not any(a in before[b] for a in some for b in some):
                return size
    return 0
