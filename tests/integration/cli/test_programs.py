"""Plain PySpark scripts, which do not import Stoker, run through the command line."""

import io
import json
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders import wait_until
from integration.cli.conftest import CommandLine
from stoker.processes.local.cluster_state import url_of

EXAMPLES = Path(__file__).parents[3] / "examples"

ENDS_WITH_SEVEN = """
import os, sys
print("to stdout", sys.argv[1:], os.environ["DAY"])
print("to stderr", file=sys.stderr)
sys.exit(7)
"""
ON_CONNECT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("counted", spark.range(int(sys.argv[1])).count())
if len(sys.argv) > 2:
    sys.exit(int(sys.argv[2]))
"""
ASKS_ITS_CLUSTER = """
import json, subprocess, sys
import stoker

with stoker.connect() as cluster:
    print(*[f"{job.name} {job.state.value}" for job in cluster.jobs() if job.name == "asks"])
listed = subprocess.run(
    [sys.executable, "-m", "stoker.cli.main", "list", "--json"], capture_output=True, check=True
)
jobs = json.loads(listed.stdout)
print(*[f"{job['name']} {job['state']}" for job in jobs if job["name"] == "asks"])
"""
STREAMS_AND_FAILS = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rates = spark.readStream.format("rate").load()
query = rates.writeStream.format("noop").queryName("rates").start()
print("begun", flush=True)
while not Path(sys.argv[1]).exists():
    time.sleep(0.1)
query.stop()
spark.stop()
raise ValueError("enough")
"""


RDDS = """
import sys
from helper import double
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
numbers = spark.sparkContext.parallelize(range(int(sys.argv[1])))
total = numbers.map(double).sum()
print(total, sys.argv[1:], spark.conf.get("spark.sql.shuffle.partitions"))
"""


def test_the_example_runs_in_a_driver_of_its_own(stoker) -> None:
    done = stoker("run", EXAMPLES / "estimate_pi.py", "2")
    assert done.stdout.startswith("pi is about 3.")
    assert "classic engine: line 24 uses parallelize" in done.stderr
    assert "FINISHED after" in done.stderr


def test_a_command_forwards_the_output_and_exit_code_of_its_program(stoker, tmp_path: Path) -> None:
    script = tmp_path / "seven.py"
    script.write_text(ENDS_WITH_SEVEN)
    done = stoker("run", script, "--env", "DAY=monday", "a", "b c", expect=7)
    assert done.stdout == "to stdout ['a', 'b c'] monday\n"
    assert "to stderr\n" in done.stderr
    assert "the program ended with exit code 7" in done.stderr

    (job,) = [
        job
        for job in json.loads(stoker("list", "--all", "--json").stdout)
        if job["name"] == "seven"
    ]
    url = f"{url_of(stoker.directory, stoker.state.masters[0])}/v1/jobs/{job['jid']}"
    (region,) = _get(stoker, f"{url}/details")["regions"]
    log = f"{url}/attempts/{region['current']['attempt']}/stdout"
    with _open(stoker, log) as answer:
        assert answer.read() == b"to stdout ['a', 'b c'] monday\n"


def test_a_program_finds_the_cluster_that_runs_it(stoker, tmp_path: Path) -> None:
    script = tmp_path / "asks.py"
    script.write_text(ASKS_ITS_CLUSTER)
    # Another home than that of the cluster: only the surroundings of the program can tell.
    done = stoker("run", script, "--name", "asks", "--env", f"HOME={tmp_path}")
    from_client, from_command = done.stdout.splitlines()
    assert from_client == from_command == "asks RUNNING"


def test_a_program_can_run_on_the_shared_server(stoker, tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(ON_CONNECT)
    done = stoker("run", script, "--engine", "connect", "12")
    assert done.stdout == "counted 12\n"
    stoker("run", script, "--engine", "connect", "3", "5", expect=5)


def test_without_a_cluster_a_program_gets_one_for_the_duration_of_the_command(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    script = tmp_path / "plain.py"
    script.write_text(ON_CONNECT)
    done = CommandLine(home)("run", script, "--engine", "connect", "12")
    assert done.stdout == "counted 12\n"
    assert "starting one on this machine for this command" in done.stderr
    assert CommandLine(home).processes() == []


def test_a_running_program_shows_its_queries_and_a_failed_one_its_own_line(
    stoker, tmp_path: Path
) -> None:
    script, enough = tmp_path / "rates.py", tmp_path / "enough"
    script.write_text(STREAMS_AND_FAILS)
    with stoker.started("run", script, enough) as running:
        assert running.stdout.readline() == "begun\n", "output is forwarded while the program runs"
        (job,) = [
            job for job in json.loads(stoker("list", "--json").stdout) if job["name"] == "rates"
        ]
        url = f"{url_of(stoker.directory, stoker.state.masters[0])}/v1/jobs/{job['jid']}"

        def states() -> list[str]:
            vertices = _get(stoker, url)["vertices"]
            return [each["status"] for each in vertices if each["name"].startswith("rates (")]

        wait_until(lambda: states() == ["RUNNING"], "the job runs", 40)
        assert "\n  rates " in stoker("status", "rates").stdout
        enough.touch()
        _, errors = running.communicate(timeout=150)
    assert running.returncode == 1
    assert 'line 13, in <module>\n    raise ValueError("enough")' in errors
    assert errors.count("ValueError: enough") == 1


@pytest.mark.timeout(400)
def test_an_uploaded_program_runs_rdds_in_a_driver_of_its_own(stoker) -> None:
    """A plain PySpark program, submitted by the requests of Flink's dashboard (REST-24)."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("helper.py", "def double(x):\n    return 2 * x\n")
        archive.writestr("__main__.py", RDDS)
    url = url_of(stoker.directory, stoker.state.masters[0])
    with httpx.Client(base_url=url, timeout=60, trust_env=False, headers=stoker.headers) as http:
        sent = http.post("/jars/upload", files={"jarfile": ("sums.zip", packed.getvalue())})
        program = sent.json()["filename"].rpartition("/")[2]
        run = http.post(f"/jars/{program}/run", json={"programArgs": "7 'a b'", "parallelism": 3})
        assert run.status_code == 200, run.text
        job = run.json()["jobid"]
        stoker("wait", job)
        (region,) = http.get(f"/jobs/{job}/details").json()["regions"]
        printed = http.get(f"/jobs/{job}/attempts/{region['current']['attempt']}/stdout").text
        assert http.delete(f"/jars/{program}").status_code == 200
    assert printed == "42 ['7', 'a b'] 3\n"


def test_a_relative_path_of_an_uploaded_program_is_refused_with_the_remedy(stoker) -> None:
    """It was submitted from no directory, and Hadoop tells only that one cannot be made."""
    program = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "spark.range(3).write.json('out')\n"
    )
    url = url_of(stoker.directory, stoker.state.masters[0])
    with httpx.Client(base_url=url, timeout=60, trust_env=False, headers=stoker.headers) as http:
        sent = http.post("/jars/upload", files={"jarfile": ("writes.py", program.encode())})
        name = sent.json()["filename"].rpartition("/")[2]
        job = http.post(f"/jars/{name}/run", json={}).json()["jobid"]
        said = stoker("wait", job, expect=1).stdout
        http.delete(f"/jars/{name}")
    assert "RelativePath: Spark was given the relative path out, and does not know" in said
    assert "name an absolute path or a URL\n  in writes.py line 3: spark.range(3)" in said


def _open(stoker: CommandLine, url: str) -> Any:
    request = urllib.request.Request(url, headers=stoker.headers)
    return urllib.request.urlopen(request, timeout=30)


def _get(stoker: CommandLine, url: str) -> dict[str, list[dict[str, dict[str, str]]]]:
    with _open(stoker, url) as answer:
        found: dict[str, list[dict[str, dict[str, str]]]] = json.load(answer)
        return found
