"""Another user of the machine can read nothing of a local cluster and call nothing of it.

The cluster is made as a user makes it, with the usual umask, in a directory that all can enter.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from builders import wait_until
from stoker.engine.spark_page import KEY, open_page, with_token
from stoker.processes.local.cluster_state import processes_of

pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0, reason="NOT TESTED: only root can become another user of the machine"
    ),
    pytest.mark.timeout(400),
]

NOBODY = 65534
PORTS_OF_A_DRIVER = 4
"""Its gateway for Python, its page, its driver and its block manager."""
HIDDEN = {403, 301, 404}
"""What the page of Spark may answer: 301 only adds a slash to the path of a directory, and a driver
that is starting has no pages yet.
"""
STRANGER = Path(__file__).with_name("stranger.py")
JOB = """
from stoker import Pipeline

rows = Pipeline("rows", parameters={"out": ""})

@rows.source
def numbers(spark):
    return spark.range(10)

rows.sink("numbers", name="out", format="parquet", path="${out}", mode="overwrite")
"""
STREAM = """
from stoker import Pipeline

stream = Pipeline("stream", parameters={"out": ""})
stream.source("ticks", format="rate", streaming=True, rowsPerSecond=5)
stream.sink("ticks", name="kept", format="parquet", path="${out}", trigger="10 hours")
"""
FOR_SPARK_AND_USER_CODE = {"tmp", "local", "checkpoints", "materialized"}
"""Directories whose content has the modes that Spark and user code choose."""
PROGRAM = """
import os, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.range(5).write.mode("overwrite").parquet(sys.argv[1])
print("SECRET-OUTPUT")
"""


@dataclass(frozen=True)
class Own:
    """The cluster's user, with umask 022."""

    base: Path

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def directory(self) -> Path:
        return self.home / "local"

    def __call__(self, *arguments: str | Path, more: Mapping[str, str] | None = None) -> str:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("STOKER_")}
        home = str(self.home)
        done = subprocess.run(
            [sys.executable, "-m", "stoker.cli.main", *map(str, arguments)],
            env=kept | {"STOKER_HOME": home, "HOME": home} | dict(more or {}),
            cwd=self.base,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            umask=0o022,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def own() -> Iterator[Own]:
    """A cluster with one master and both engines, on which two jobs have run."""
    # Not below pytest's directory, which nobody else can enter anyway.
    base = Path(tempfile.mkdtemp(prefix="stoker-other-users-", dir="/tmp"))
    base.chmod(0o755)
    own = Own(base)
    own.home.mkdir(mode=0o755)
    try:
        own(
            *("cluster", "up", "--rest-port", "0", "--slots", "2"),
            *("-D", "taskmanager.classic.warm-at-start=true"),
            # Busy machines need long to start three JVMs.
            *("-D", "taskmanager.spark.start-timeout=5 min"),
        )
        (base / "job.py").write_text(JOB)
        (base / "program.py").write_text(PROGRAM)
        own(
            "run",
            base / "job.py",
            "--param",
            f"out={base / 'rows'}",
            "--conf",
            "spark.x.password=p",
        )
        own("run", base / "program.py", base / "more-rows")
        (base / "rows.sql").write_text("SELECT 1 AS one")
        own("run", base / "rows.sql")
        (base / "stream.py").write_text(STREAM)
        own("run", "-d", base / "stream.py", "--param", f"out={base / 'stream'}")
        wait_until(lambda: any((base / "stream").glob("*.parquet")), "the stream has written", 120)
        yield own
    finally:
        own("cluster", "down")
        shutil.rmtree(base, ignore_errors=True)


def listening_ports(directory: Path) -> set[int]:
    """TCP ports at which processes of the cluster listen."""
    inodes = set()
    for process in processes_of(directory):
        folder = f"/proc/{process.pid}/fd"
        for name in os.listdir(folder):
            try:
                target = os.readlink(f"{folder}/{name}")
            except OSError:
                continue
            inodes |= set(re.findall(r"socket:\[(\d+)\]", target))
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                assert not fields[1].startswith(("00000000:", "0" * 32 + ":")), "all interfaces"
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def address_in(path: Path, key: str) -> int:
    return int(json.loads(path.read_text())[key].split("/")[2].rpartition(":")[2])


@dataclass(frozen=True)
class Ports:
    rest: int
    rpc: frozenset[int]
    connect: int
    page: int
    spark: frozenset[int]
    """Driver and block manager of the Spark server."""
    others: frozenset[int]
    """Of the classic driver: its gateway, page, driver and block manager."""


def ports_of(directory: Path) -> Ports:
    work = directory / "work"
    log = (directory / "log" / "task-executor-1" / "spark-server.log").read_text()
    page = int(re.findall(r"started service 'SparkUI' on port (\d+)", log)[-1])
    connect = int(re.findall(r"server started at: \S*?:(\d+)\s", log)[-1])
    (properties,) = (work / "task-executor-1" / "engine" / "servers").glob("*/spark.properties")
    (key,) = re.findall(rf"^{re.escape(KEY)}=(\S+)$", properties.read_text(), re.MULTILINE)
    url = f"{with_token(f'http://127.0.0.1:{page}', key)}/api/v1/applications"
    application = open_page(url, seconds=20)[0]["id"]
    settings = dict(open_page(f"{url}/{application}/environment", seconds=20)["sparkProperties"])
    (executor,) = open_page(f"{url}/{application}/executors", seconds=20)
    spark = {int(settings["spark.driver.port"]), int(executor["hostPort"].rpartition(":")[2])}
    rest = address_in(work / "master-1" / "master.json", "rest_url")
    rpc = {
        address_in(work / "master-1" / "master.json", "rpc_address"),
        address_in(work / "task-executor-1" / "task-executor.json", "rpc_address"),
    }
    known = {rest, connect, page, *rpc, *spark}
    # The spare driver starts in the background.
    wait_until(
        lambda: len(listening_ports(directory) - known) >= PORTS_OF_A_DRIVER,
        "a spare driver listens",
        150,
    )
    everything = listening_ports(directory)
    assert known <= everything
    return Ports(
        rest=rest,
        rpc=frozenset(rpc),
        connect=connect,
        page=page,
        spark=frozenset(spark),
        others=frozenset(everything - known),
    )


@pytest.fixture(scope="module")
def ports(own: Own) -> Ports:
    return ports_of(own.directory)


@pytest.fixture(scope="module")
def found(own: Own, ports: Ports) -> dict[str, Any]:
    """What the stranger has achieved."""
    paths = [str(own.directory)]
    for folder, folders, files in os.walk(own.directory):
        paths += [os.path.join(folder, name) for name in (*folders, *files)]
    assert len(paths) > 50
    numbers = [ports.rest, *ports.rpc, ports.connect, ports.page, *ports.spark, *ports.others]
    done = subprocess.run(
        [sys.executable, str(STRANGER)],
        input=json.dumps({"uid": NOBODY, "paths": paths, "ports": numbers}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["uid"] == NOBODY
    # Otherwise the stranger would fail for a reason that has nothing to do with the cluster.
    assert os.stat(own.base).st_mode & 0o005 == 0o005
    return answer


def test_no_file_of_the_cluster_can_be_read_or_written(found: dict[str, Any]) -> None:
    assert found["paths"] == {}


def test_everything_but_the_files_of_spark_and_user_code_is_for_the_user_alone(own: Own) -> None:
    """Theirs are in a directory that is for the user alone."""
    open_to_others, handed_over = [], set()
    for folder, folders, files in os.walk(own.directory):
        for path in (Path(folder, name) for name in (*folders, *files)):
            if not path.exists() or path.is_symlink() or not path.stat().st_mode & 0o077:
                continue
            short = path.relative_to(own.directory)
            handed = [each for each in short.parents if each.name in FOR_SPARK_AND_USER_CODE]
            if handed:
                handed_over.add(own.directory / handed[-1])
            else:
                open_to_others.append(str(short))
    assert open_to_others == []
    assert handed_over
    assert [str(each) for each in handed_over if each.stat().st_mode & 0o077] == []
    assert (own.directory / "storage" / "rows").is_dir()
    assert any((own.directory / "storage" / "jobs").glob("*/checkpoints/kept/offsets/0"))


def test_files_that_jobs_write_elsewhere_have_the_modes_of_their_user(own: Own) -> None:
    """A sink belongs to the user, whose umask decides who may read it."""
    for name in ("rows", "more-rows"):
        modes = {each.stat().st_mode & 0o777 for each in (own.base / name).glob("*.parquet")}
        assert modes == {0o644}
        assert (own.base / name).stat().st_mode & 0o777 == 0o755


def test_rest_answers_only_what_describes_the_api(found: dict[str, Any], ports: Ports) -> None:
    pages = found["ports"][str(ports.rest)]["pages"]
    assert {name: status for name, status in pages.items() if status != 401} == {"GET /": 200}


def test_no_rpc_method_serves_a_stranger(found: dict[str, Any], ports: Ports) -> None:
    for port in ports.rpc:
        methods = found["ports"][str(port)]["methods"]
        ours = {name: answer for name, answer in methods.items() if "stoker.Rpc" in name}
        assert set(map(tuple, ours.values())) == {("UNAUTHENTICATED", 0)}, ours


def test_spark_connect_serves_no_stranger_and_its_port_cannot_be_taken(
    found: dict[str, Any], ports: Ports
) -> None:
    answers = found["ports"][str(ports.connect)]
    spark = {name: answer for name, answer in answers["methods"].items() if "spark" in name}
    assert set(map(tuple, spark.values())) == {("UNAUTHENTICATED", 0)}, spark
    assert answers["can listen"] is False


def test_sparks_page_shows_a_stranger_nothing(found: dict[str, Any], ports: Ports) -> None:
    pages = found["ports"][str(ports.page)]["pages"]
    assert set(pages.values()) <= HIDDEN, pages


def test_spark_itself_answers_no_stranger(found: dict[str, Any], ports: Ports) -> None:
    for port in ports.spark:
        said = found["ports"][str(port)]["spark"]
        assert said == "closed" or (said.startswith("refused") and "Sasl" in said), said


def test_nothing_else_of_the_cluster_serves_a_stranger(found: dict[str, Any], ports: Ports) -> None:
    """The gateway, page, driver and block manager of the spare classic driver."""
    assert len(ports.others) >= PORTS_OF_A_DRIVER
    for port in ports.others:
        answers = found["ports"][str(port)]
        statuses = {status for status in answers["pages"].values() if isinstance(status, int)}
        assert statuses <= HIDDEN, answers["pages"]
        assert all(count == 0 for _, count in answers["methods"].values()), answers["methods"]
        assert not answers["spark"].startswith("answered"), answers["spark"]
        assert "!y" not in answers["gateway"], answers["gateway"]


def test_the_cluster_still_serves_its_user(own: Own, found: dict[str, Any]) -> None:
    assert found["uid"] == NOBODY
    jobs = json.loads(own("list", "-a", "--json"))
    assert {job["state"] for job in jobs if job["name"] != "stream"} == {"FINISHED"}
