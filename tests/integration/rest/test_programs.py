"""Uploaded programs: stored, planned in a separate process, and run as jobs (REST-24)."""

import asyncio
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from stoker.core.graph import EngineKind, Program, ResourceProfile
from stoker.core.ids import JobId
from stoker.core.options import ByteSize
from stoker.osproc.process_tree import start_time
from stoker.rest.options import RestOptions
from stoker.testing.rest import Master

SQL = "CREATE OR REPLACE TEMP VIEW v AS SELECT 1 AS x;\nINSERT INTO t SELECT x FROM v;\n"
PYTHON = """
import os, sys
from stoker import Pipeline

assert "STOKER_SECRET" not in os.environ
p = Pipeline("copy-" + (sys.argv[1] if len(sys.argv) > 1 else "none"))
p.source("numbers", format="json", path="/in")
p.sink("numbers", name="copies", format="json", path="/out")
"""


async def upload(http: httpx.AsyncClient, name: str, content: bytes | str) -> str:
    answer = await http.post("/jars/upload", files={"jarfile": (name, content)})
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "success"
    return str(answer.json()["filename"]).rpartition("/")[2]


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Master:
    monkeypatch.setenv("STOKER_SECRET", "hunter2")
    return Master(options=RestOptions(bind_port="0", upload_directory=tmp_path / "uploads"))


async def test_a_program_is_uploaded_planned_run_and_deleted(
    master: Master, tmp_path: Path
) -> None:
    async with master.in_process() as http:
        program = await upload(http, "copy.py", PYTHON)
        (listed,) = (await http.get("/jars")).json()["files"]
        plan = await http.get(f"/jars/{program}/plan", params={"programArg": "a"})
        run = await http.post(
            f"/jars/{program}/run",
            json={"programArgsList": ["b"], "parallelism": 3, "nope": 1},
        )
        deleted = await http.delete(f"/jars/{program}")
        again = await http.delete(f"/jars/{program}")
    assert listed["id"] == program
    assert listed["name"] == "copy.py"
    assert plan.status_code == 200, plan.text
    assert plan.json()["plan"]["name"] == "copy-a"
    assert len(plan.json()["plan"]["nodes"]) == 2
    assert run.status_code == 200, run.text
    assert run.json()["jobid"] == run.json()["applicationId"]
    graph = master.dispatcher.graphs[JobId(run.json()["jobid"])]
    assert graph.name == "copy-b"
    assert graph.configuration["spark.sql.shuffle.partitions"] == "3"
    assert (deleted.status_code, again.status_code) == (200, 400)
    assert await master.storage.list("programs") == []
    assert list((tmp_path / "uploads").iterdir()) == []


async def test_a_master_that_received_no_upload_yet_plans_a_stored_program(
    master: Master, tmp_path: Path
) -> None:
    async with master.in_process() as http:
        program = await upload(http, "copy.py", PYTHON)
        (tmp_path / "uploads").rmdir()
        plan = await http.get(f"/jars/{program}/plan", params={"programArg": "a"})
    assert plan.status_code == 200, plan.text


async def test_a_run_request_sets_queue_priority_slots_and_resources(master: Master) -> None:
    async with master.in_process() as http:
        program = await upload(http, "copy.py", PYTHON)
        run = f"/jars/{program}/run"
        options = {"queue": "nightly", "priority": 7, "slots": 1, "resources": {"memory": "1 gb"}}
        accepted = await http.post(run, json=options)
        wrong = [
            await http.post(run, json=body)
            for body in ({"queue": "two words"}, {"slots": 0}, {"resources": {"memory": "much"}})
        ]
    graph = master.dispatcher.graphs[JobId(accepted.json()["jobid"])]
    assert (graph.queue, graph.priority, graph.slots) == ("nightly", 7, 1)
    assert graph.profile == ResourceProfile(memory_bytes=2**30)
    assert [answer.status_code for answer in wrong] == [400] * 3
    assert "not the name of a queue" in wrong[0].text


async def test_the_entry_class_names_the_job_file_in_a_zip(master: Master) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("jobs/__init__.py", "")
        archive.writestr("jobs/copy.py", PYTHON)
    async with master.in_process() as http:
        program = await upload(http, "jobs.zip", packed.getvalue())
        plan = await http.post(f"/jars/{program}/plan", json={"entryClass": "jobs.copy"})
        without = await http.post(f"/jars/{program}/plan", json={})
    assert plan.status_code == 200, plan.text
    assert (without.status_code, "entryClass" in without.text) == (400, True)


RDDS = """
import sys
from helper import TEN
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print(spark.sparkContext.parallelize(range(TEN)).sum(), sys.argv[1:])
"""


async def test_a_script_that_does_not_import_stoker_is_a_program_and_not_run_by_the_master(
    master: Master,
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("helper.py", "TEN = 10")
        archive.writestr("__main__.py", RDDS)
    async with master.in_process() as http:
        script = await upload(http, "sums.py", RDDS)
        # Flink's dashboard sends the entry of a program back as its entryClass.
        run = await http.post(
            f"/jars/{script}/run", json={"entryClass": "sums", "programArgsList": ["a"]}
        )
        plan = await http.get(f"/jars/{script}/plan")
        wrong = await http.post(f"/jars/{script}/run", json={"entryClass": "Main"})
        whole = await upload(http, "sums.zip", packed.getvalue())
        packed_run = await http.post(f"/jars/{whole}/run", json={"entryClass": "sums"})
    assert run.status_code == 200, run.text
    graph = master.dispatcher.graphs[JobId(run.json()["jobid"])]
    (program,) = graph.vertices
    assert isinstance(program, Program)
    assert (graph.name, program.script, program.arguments) == ("sums", "sums.py", ("a",))
    assert graph.engine is EngineKind.CLASSIC
    (node,) = plan.json()["plan"]["nodes"]
    assert "sums.py" in node["description"]
    assert (wrong.status_code, "starts at its first line" in wrong.text) == (400, True)
    assert packed_run.status_code == 200, packed_run.text
    graph = master.dispatcher.graphs[JobId(packed_run.json()["jobid"])]
    assert graph.name == "sums"
    assert {artifact.name for artifact in graph.artifacts} >= {"__main__.py", "sums.zip"}


async def test_a_pipeline_that_needs_a_driver_of_its_own_gets_one(master: Master) -> None:
    async with master.in_process() as http:
        program = await upload(http, "copy.py", PYTHON + "\ndef f(df): return df.rdd\n")
        run = await http.post(f"/jars/{program}/run", json={"entryClass": "copy"})
    assert run.status_code == 200, run.text
    graph = master.dispatcher.graphs[JobId(run.json()["jobid"])]
    assert graph.engine is EngineKind.CLASSIC
    assert "uses rdd" in graph.engine_reason


async def test_an_archive_that_would_fill_the_disk_is_not_unpacked(master: Master) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", "")
    # The archive's central directory claims that its only file has four gigabytes.
    content = bytearray(packed.getvalue())
    at = content.index(b"PK\x01\x02") + 24
    content[at : at + 4] = b"\xfe\xff\xff\xff"
    async with master.in_process() as http:
        program = await upload(http, "bomb.zip", bytes(content))
        answer = await http.post(f"/jars/{program}/run", json={})
    assert (answer.status_code, "holds more than" in answer.text) == (400, True), answer.text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("import os, stoker; os._exit(3)", "ended before it had described its job"),
        ("import stoker; raise ValueError('oh no')", "oh no"),
        ("import stoker", "there is no Pipeline in it"),
        ("x = (", "bad.py cannot be run"),
    ],
)
async def test_a_program_that_cannot_be_run_is_refused_with_the_reason(
    master: Master, content: str, words: str
) -> None:
    async with master.in_process() as http:
        program = await upload(http, "bad.py", content)
        answer = await http.post(f"/jars/{program}/run", json={})
    assert answer.status_code == 400
    assert words in answer.text


@pytest.mark.parametrize("name", ["job.jar", "../../etc/passwd", "", ".py", "x.py\x00.exe"])
async def test_a_file_of_an_unsupported_kind_is_refused_and_not_stored(
    master: Master, name: str
) -> None:
    async with master.in_process() as http:
        answer = await http.post("/jars/upload", files={"jarfile": (name, b"x")})
    assert answer.status_code == 400, answer.text
    assert await master.storage.list("programs") == []


async def test_directories_are_removed_from_the_name_of_an_upload(master: Master) -> None:
    """Neither an upload nor a deletion reaches a file outside of its folder (REST-10)."""
    async with master.in_process() as http:
        program = await upload(http, "../../tmp/evil.sql", SQL)
        refused = await http.delete("/jars/..%2f..%2fjobs")
    assert program.endswith("_evil.sql")
    assert refused.status_code in (400, 404)


async def test_the_same_content_is_stored_once_until_its_last_program_is_deleted(
    master: Master,
) -> None:
    async with master.in_process() as http:
        first, second = [await upload(http, "a.sql", SQL) for _ in range(2)]
        contents = await master.storage.list("programs/contents")
        await http.delete(f"/jars/{first}")
        kept = await master.storage.list("programs/contents")
        await http.delete(f"/jars/{second}")
    assert len(contents) == 1
    assert kept == contents
    assert await master.storage.list("programs") == []


HOSTILE = {
    "a pipe in the place of the answer": "os.mkfifo('answer.json')",
    "an endless answer": "os.symlink('/dev/zero', 'answer.json')",
    "an endless graph": (
        "open('answer.json', 'w').write('{}'); os.symlink('/dev/zero', 'graph.json')"
    ),
    "a file of the machine": (
        "open('answer.json', 'w').write('{\"files\": {\"%s\": \"/etc/hostname\"}}' % ('0' * 64));"
        "open('graph.json', 'w').write('{\"job_id\": \"%s\", \"name\": \"x\"}' % ('1' * 32))"
    ),
    "a pipe in the place of its output": "os.remove('output'); os.mkfifo('output')",
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_program_cannot_block_the_master_by_what_it_leaves(
    master: Master, kind: str
) -> None:
    async with asyncio.timeout(60), master.in_process() as http:
        program = await upload(
            http, "hostile.py", f"import os, stoker\n{HOSTILE[kind]}\nos._exit(0)\n"
        )
        answer = await http.get(f"/jars/{program}/plan")
        jobs = await http.get("/jobs/overview")
    assert answer.status_code == 400, answer.text
    assert "ended before it had described its job" in answer.text
    assert "hostname" not in answer.text
    assert jobs.status_code == 200


async def test_a_daemon_of_a_program_is_gone_when_the_answer_comes(
    master: Master, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    daemon = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({str(pid_file)!r}, "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not os.path.exists({str(pid_file)!r}):
    time.sleep(0.01)
{PYTHON}
"""
    async with master.in_process() as http:
        program = await upload(http, "daemon.py", daemon)
        answer = await http.get(f"/jars/{program}/plan")
    assert answer.status_code == 200, answer.text
    assert start_time(int(pid_file.read_text())) is None


async def test_a_graph_that_is_too_large_is_refused_with_the_limit(master: Master) -> None:
    master.options = replace(master.options, max_graph_size=ByteSize(100))
    async with master.in_process() as http:
        program = await upload(http, "copy.py", PYTHON)
        answer = await http.get(f"/jars/{program}/plan")
    assert answer.status_code == 400, answer.text
    assert "larger than 100 bytes" in answer.text
