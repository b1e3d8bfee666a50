"""What a job asks of the cluster, in Python and in YAML."""

from typing import Any

import pytest

from stoker import Pipeline
from stoker.core.errors import InvalidJobGraph
from stoker.core.graph import ResourceProfile
from stoker.pipeline.building import assemble
from stoker.pipeline.demands import with_demands
from stoker.pipeline.drafts import JobDraft
from stoker.pipeline.yaml_job import yaml_draft

VERTICES = """
sources:
  one: {sql: "select 1 as id"}
sinks:
  out: {input: one, format: noop, mode: overwrite}
"""


def pipeline(**more: Any) -> Pipeline:
    made = Pipeline("job", **more)
    made.source("one", sql="select 1 as id")
    made.sink("one", format="noop", mode="overwrite")
    return made


def draft(text: str) -> JobDraft:
    def no_functions(_: str) -> Any:
        raise AssertionError

    return yaml_draft(
        text + VERTICES, file="job.yml", default_name="job", load_function=no_functions
    )


def test_python_and_yaml_give_the_same_demands(tmp_path: Any) -> None:
    graph = pipeline(
        queue="nightly", priority=3, slots=2, resources={"cores": 0.5, "memory": "2 gb"}
    ).build()
    written = assemble(
        draft("queue: nightly\npriority: 3\nslots: 2\nresources: {cores: 0.5, memory: 2 gb}\n"),
        job_id=None,
        params={},
        base_directory=tmp_path,
    ).graph
    for each in (graph, written):
        assert (each.queue, each.priority, each.slots) == ("nightly", 3, 2)
        assert each.profile == ResourceProfile(cores=0.5, memory_bytes=2 * 2**30)


def test_a_job_without_demands_has_the_default_queue_and_no_limits() -> None:
    graph = pipeline().build()
    assert (graph.queue, graph.priority, graph.slots) == ("default", 0, None)
    assert graph.profile == ResourceProfile()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"priority": "high"}, "whole number"),
        ({"slots": 1.5}, "whole number"),
        ({"slots": 0}, "at least 1"),
        ({"queue": "two words"}, "not the name of a queue"),
        ({"resources": {"core": 1}}, "did you mean"),
        ({"resources": ResourceProfile(cores=1)}, "give cores and memory"),
        ({"resources": {"memory": "2 parsecs"}}, "give a size"),
        ({"resources": {"cores": -1}}, "numbers of at least 0"),
        ({"priority": 5000}, "from -1000 to 1000"),
    ],
)
def test_faults_say_what_is_wrong_and_what_to_write(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobGraph, match=message):
        pipeline(**wrong).build()


def test_a_fault_in_yaml_has_its_line() -> None:
    with pytest.raises(InvalidJobGraph, match=r"job.yml line 1: slots is not a whole number"):
        draft("slots: 1.5\n")


def test_demands_beside_a_job_override_its_own_and_keep_the_others() -> None:
    graph = pipeline(
        queue="nightly", priority=3, slots=2, resources={"cores": 0.5, "memory": "2 gb"}
    ).build()
    assert with_demands(graph) is graph
    assert with_demands(graph, queue=None, resources=None) is graph
    changed = with_demands(graph, priority=0, resources={"cores": 2})
    assert (changed.queue, changed.priority, changed.slots) == ("nightly", 0, 2)
    assert changed.profile == ResourceProfile(cores=2, memory_bytes=2 * 2**30)
    changed = with_demands(graph, queue="adhoc", slots=1, resources={"memory": "1 gb"})
    assert (changed.queue, changed.priority, changed.slots) == ("adhoc", 3, 1)
    assert changed.profile == ResourceProfile(cores=0.5, memory_bytes=2**30)


def test_demands_beside_a_job_are_checked_together_with_it() -> None:
    made = Pipeline("two queries")
    made.source("ticks", format="rate", streaming=True)
    for name in ("one", "two"):
        made.sink("ticks", name=name, format="noop")
    graph = made.build()
    assert with_demands(graph, slots=2).slots == 2
    with pytest.raises(InvalidJobGraph, match="its 2 streaming queries run together"):
        with_demands(graph, slots=1)
    with pytest.raises(InvalidJobGraph, match="did you mean"):
        with_demands(graph, resources={"core": 1})
