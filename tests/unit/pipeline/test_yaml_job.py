import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stoker import Pipeline
from stoker.core.errors import InvalidJobGraph
from stoker.core.graph import PythonFunction, Transform
from stoker.pipeline.building import assemble
from stoker.pipeline.drafts import JobSettings
from stoker.pipeline.load import load_job
from stoker.pipeline.yaml_job import yaml_draft

Refusal = Callable[[Callable[[], object]], str]
WriteFile = Callable[[str, str], Path]

GOOD = """\
name: orders
parameters:
  day: 2026-11-01
  needed:
configuration: {spark.sql.shuffle.partitions: 2}
restart: {strategy: fixed-delay, attempts: 3, delay_seconds: 0.5}
artifacts:
  files: [notes.txt]
sources:
  raw:
    format: csv
    path: in/${day}
    schema: id LONG
    streaming: yes
    options: {header: true, sep: ;}
transforms:
  big:
    sql: SELECT * FROM raw
sinks:
  out: {input: big, format: parquet, path: out, partition_by: [id, at], trigger: 10 seconds}
"""


def python_form(folder: Path) -> Pipeline:
    p = Pipeline(
        "orders",
        parameters={"day": "2026-11-01", "needed": None},
        configuration={"spark.sql.shuffle.partitions": 2},
        restart={"strategy": "fixed-delay", "attempts": 3, "delay_seconds": 0.5},
        files=[folder / "notes.txt"],
    )
    p.source(
        "raw",
        format="csv",
        path="in/${day}",
        schema="id LONG",
        streaming=True,
        header=True,
        sep=";",
    )
    p.transform("big", sql="SELECT * FROM raw")
    p.sink(
        "big",
        name="out",
        format="parquet",
        path="out",
        partition_by=["id", "at"],
        trigger="10 seconds",
    )
    return p


def test_yaml_and_python_give_the_same_graph(write: WriteFile, tmp_path: Path) -> None:
    write("notes.txt", "text")
    job = load_job(write("job.yml", GOOD), JobSettings(params={"needed": "x"}, job_id="0" * 32))  # type: ignore[arg-type]
    assert job.graph == python_form(tmp_path).build(params={"needed": "x"}, job_id="0" * 32)
    assert job.files == {"notes.txt": tmp_path / "notes.txt"}


def test_a_yaml_job_loads_functions_from_a_python_file(write: WriteFile) -> None:
    write("steps.py", "def clean(raw, params):\n    return raw\n")
    text = (
        "sources: {raw: {format: csv, path: x}}\n"
        "transforms: {tidy: {function: 'steps.py:clean', materialized: true}}\n"
        "sinks: {out: {input: tidy, format: noop}}\n"
    )
    tidy = load_job(write("job.yaml", text)).graph.vertex("tidy")
    assert isinstance(tidy, Transform)
    assert tidy.inputs == ("raw",)
    assert isinstance(tidy.compute, PythonFunction)
    assert tidy.compute.parameters == ("raw", "params")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sinkz: {}\n", "job.yml line 1: unknown key 'sinkz' in the job (did you mean 'sinks'?)"),
        (
            "sources:\n  raw:\n    formt: csv\n    path: x\n",
            "job.yml line 3: unknown key 'formt' in source 'raw' (did you mean 'format'?)",
        ),
        (
            "sources:\n  raw:\n    format: csv\n    header: true\n",
            "job.yml line 4: unknown key 'header' in source 'raw' (write it below 'options:')",
        ),
        (
            "name: a\nname: b\n",
            "job.yml line 2: key 'name' of the job stands here and in line 1 (remove one)",
        ),
        (
            "sources:\n  raw: {format: csv, path: x}\n  raw: {format: csv, path: x}\n",
            "job.yml line 3: key 'raw' of sources stands here and in line 2",
        ),
        ("sources:\n\traw: 1\n", "job.yml line 2 column 1: a tab is used for indentation"),
        ("name: [a\n", "job.yml line 2 column 1: this is not YAML: "),
        ("- a\n- b\n", "job.yml line 1: the job is a list (write 'key: value' lines)"),
        ("just words\n", "job.yml line 1: the job is the value 'just words'"),
        ("", "job.yml: the file is empty (write a job)"),
        ("a: 1\n---\nb: 2\n", "this is not YAML: but found another document"),
        ("name: [1]\n", "job.yml line 1: name is a list (write a single value)"),
        (
            "sources:\n  raw: {format: csv, path: x, streaming: maybe}\n",
            "job.yml line 2: streaming is 'maybe' (write true or false)",
        ),
        (
            "restart:\n  attempts: many\n",
            "job.yml line 2: attempts is 'many' (write a number)",
        ),
        ("restart: {attempts: 1.5}\n", "attempts is not a whole number"),
        (
            "restart:\n  strategy: failure-rate\n  max_failures: 1.5\n",
            "job.yml line 3: max_failures is not a whole number (write one)",
        ),
        (
            "resources:\n  cores: 1\n  memory: plenty\n",
            "job.yml line 3: resources: memory is 'plenty' (give a size",
        ),
        ("restart: {attemps: 1}\n", "unknown key 'attemps' in restart (did you mean 'attempts'?)"),
        ("artifacts: {wheel: [a]}\n", "(did you mean 'wheels'?)"),
        ("sources:\n  raw: {path: x}\n", "job.yml line 2: source 'raw': it has no format"),
        (
            "sinks:\n  out: {format: csv}\n",
            "job.yml line 2: sink 'out' has no input (write 'input: name of a vertex')",
        ),
        ("sinks:\n  out: {input: a}\n", "job.yml line 2: sink 'out': it has no format"),
        ("transforms:\n  t: {}\n", "job.yml line 2: transform 't': it has no query"),
        (
            "sources:\n  raw: {format: csv, options: {sep: }}\n",
            "'sep' in options has no value",
        ),
        ("name: !!python/object:os.system {}\n", "name is a mapping"),
        ("name: !secret x\n", "name is of the unknown type !secret"),
        (
            "sources:\n  raw: {function: steps}\n",
            "it does not name a function (write FILE.py:function)",
        ),
        ("sources:\n  raw: {function: 'none.py:f'}\n", "none.py: there is no such file"),
        ("sources: &a\n  raw: *a\n", "unknown key 'raw' in source 'raw'"),
    ],
)
def test_a_bad_file_is_reported_with_its_line(
    text: str, message: str, write: WriteFile, refusal: Refusal
) -> None:
    path = write("job.yml", text)
    assert message in refusal(lambda: load_job(path))


def test_a_function_that_is_not_in_the_file_comes_with_a_suggestion(
    write: WriteFile, refusal: Refusal
) -> None:
    write("steps.py", "def clean(raw):\n    return raw\n")
    path = write("job.yml", "sources:\n  raw: {function: 'steps.py:clen'}\n")
    assert "there is no function 'clen' in the file (did you mean 'clean'?)" in refusal(
        lambda: load_job(path)
    )


def test_all_typos_are_reported_at_once(write: WriteFile) -> None:
    path = write("job.yml", "nam: a\nsources:\n  raw: {formt: csv}\nsinks:\n  o: {inputt: raw}\n")
    with pytest.raises(InvalidJobGraph) as refused:
        load_job(path)
    assert len(refused.value.facts["faults"]) == 4


def test_a_value_with_two_faults_is_reported_once(write: WriteFile) -> None:
    path = write("job.yml", "resources: {memory: [1]}\n")
    with pytest.raises(InvalidJobGraph) as refused:
        load_job(path)
    assert refused.value.facts["faults"] == [
        "job.yml line 1: memory is a list (write a single value)"
    ]


def test_a_fault_of_the_whole_job_is_reported_together_with_typos(write: WriteFile) -> None:
    path = write("job.yml", "priorty: 1\nresources: {memory: plenty}\n")
    with pytest.raises(InvalidJobGraph) as refused:
        load_job(path)
    assert refused.value.facts["faults"] == [
        "job.yml line 1: unknown key 'priorty' in the job (did you mean 'priority'?)",
        "job.yml line 2: resources: memory is 'plenty' (give a size, such as 512 mb or 2 gb)",
    ]


SMALL = """\
name: small
sources: {one: {sql: SELECT 1}}
sinks: {out: {input: one, format: noop, mode: overwrite}}
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("restart:\n  jitter: 2\n", "line 4: restart: jitter is 2"),
        ("resources: {cores: -1}\n", "line 4: resources: cores or memory are negative"),
        ("queue: a queue\n", "line 4: queue: 'a queue' is not the name of a queue"),
        ("priority: 5000\n", "line 4: priority: it is 5000"),
        ("slots: 0\n", "line 4: slots: it is 0"),
        ("configuration:\n  parallelism.default: x\n", "line 4: configuration: parallelism.def"),
        ("parameters:\n  day:\n", "line 5: parameter 'day': it has no value"),
        ("transforms:\n  t: {sql: SELECT * FROM two}\n", "line 5: transform 't': unknown input"),
        ("transforms:\n  two:\n    sql: SELECT '${x}'\n", "line 5: transform 'two': '${x}' refers"),
    ],
)
def test_a_fault_of_the_assembled_job_has_its_line(
    text: str, message: str, write: WriteFile, refusal: Refusal
) -> None:
    path = write("job.yml", SMALL + text)
    assert f"job.yml {message}" in refusal(lambda: load_job(path))


def test_a_fault_of_the_submitters_configuration_has_no_line(
    write: WriteFile, refusal: Refusal
) -> None:
    path = write("job.yml", SMALL + "configuration: {a: b}\n")
    settings = JobSettings(configuration={"parallelism.default": "x"})
    message = refusal(lambda: load_job(path, settings))
    assert "configuration: parallelism.default is 'x'" in message
    assert "line" not in message


names = st.text(string.ascii_lowercase, min_size=1, max_size=8)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=9)
plain = texts.map(lambda text: text.replace("$", "§"))


@given(
    sources=st.dictionaries(
        names,
        st.fixed_dictionaries(
            {"format": st.just("custom-x"), "path": plain},
            optional={
                "schema": plain,
                "streaming": st.booleans(),
                "options": st.dictionaries(
                    names, plain | st.booleans() | st.integers(), max_size=3
                ),
            },
        ),
        min_size=1,
        max_size=3,
    ),
    parameters=st.dictionaries(names.map(lambda name: f"p_{name}"), plain, max_size=2),
)
def test_any_job_is_the_same_in_yaml_and_in_python(
    sources: dict[str, dict[str, Any]], parameters: dict[str, str]
) -> None:
    written = {
        "name": "job",
        "parameters": parameters,
        "sources": sources,
        "sinks": {f"{name}-out": {"input": name, "format": "noop"} for name in sources},
    }
    p = Pipeline("job", parameters=parameters)
    reserved = {"spark", "params"} & set(sources)
    for name, keywords in sources.items():
        p.source(name, **keywords)
    for name in sources:
        p.sink(name, name=f"{name}-out", format="noop")
    draft = yaml_draft(
        yaml.safe_dump(written, allow_unicode=True, sort_keys=False),
        file="job.yml",
        default_name="job",
        load_function=pytest.fail,
    )
    assert draft == p.draft()
    if not reserved:
        built = assemble(draft, job_id=None, params={}, base_directory=Path.cwd()).graph
        other = p.build()
        assert msgspec.structs.replace(built, job_id=other.job_id) == other
