"""A real master without task executors: how it starts, what it leaves behind, how it ends."""

import asyncio
import json
import os
import signal
import socket
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from integration.processes.separate_processes import PATIENCE, process_of, url_of
from stoker.client.asynchronous import AsyncClient
from stoker.client.options import ClientOptions
from stoker.config.configuration import Configuration
from stoker.config.load import configuration_from
from stoker.config.options import ALL
from stoker.config.sources import settings_on_command_line
from stoker.config.tree import OptionTree
from stoker.core.errors import AccessDenied, StartupFailed
from stoker.core.graph import JobGraph
from stoker.core.states import JobStatus
from stoker.ha import keys
from stoker.ha.embedded.coordinator import EmbeddedCoordinator
from stoker.processes import master
from stoker.processes.master import running_master
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.testing.sample_jobs import new_graph


def configuration_for(folder: Path, name: str = "one", **others: str) -> Configuration:
    settings = {
        "high-availability.storageDir": str(folder / "storage"),
        "process.working-dir": str(folder / "work"),
        "jobmanager.resource-id": name,
        "rest.bind-port": "0",
        **others,
    }
    texts = [f"{key}={value}" for key, value in settings.items()]
    return configuration_from(OptionTree(ALL), settings_on_command_line(texts))


def waiting_job() -> JobGraph:
    """A job that waits for a slot as long as there is no task executor."""
    return new_graph()


async def shown_configuration(url: str) -> dict[str, str]:
    async with httpx.AsyncClient(base_url=url) as http:
        entries = (await http.get("/jobmanager/config")).json()
    return {entry["key"]: entry["value"] for entry in entries}


async def records_of(folder: Path) -> EmbeddedCoordinator:
    return await EmbeddedCoordinator.open(folder / "storage" / "coordinator", session="observer")


async def test_a_started_master_has_all_its_services_and_leads(tmp_path: Path) -> None:
    """On a single machine a master leads at once (ENTRY-01, LEAD-16).

    Its configuration has the ports that it drew.
    """
    async with asyncio.timeout(PATIENCE), running_master(configuration_for(tmp_path)) as one:
        address = json.loads((tmp_path / "work" / "one" / "master.json").read_text())
        assert address["rest_url"] == one.rest_url
        assert address["rpc_address"] == one.rpc_address
        async with AsyncClient(one.rest_url) as client:
            assert (await client.overview()).taskmanagers == 0
            rest, rpc = urlsplit(one.rest_url), urlsplit(one.rpc_address)
            shown = await shown_configuration(one.rest_url)
            assert (shown["rest.address"], shown["rest.bind-port"]) == (
                rest.hostname,
                str(rest.port),
            )
            assert shown["jobmanager.rpc.address"] == rpc.hostname
            assert shown["jobmanager.rpc.port"] == str(rpc.port)
            assert (await client.submit(waiting_job())).job_id == waiting_job().job_id
    assert not (tmp_path / "work" / "one" / "master.json").exists()


async def test_a_failed_start_leaves_nothing_open(tmp_path: Path) -> None:
    """Everything that was opened before the failure is closed (ENTRY-02)."""
    threads = {thread.name for thread in threading.enumerate()}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(StartupFailed, match=port):
            async with running_master(configuration_for(tmp_path, **{"rest.bind-port": port})):
                pass
    sessions = tmp_path / "storage" / "coordinator" / "sessions"
    assert list(sessions.iterdir()) == []
    left = {thread.name for thread in threading.enumerate()} - threads
    assert not any(name.startswith("coordinator") for name in left)


async def test_a_closed_master_leaves_its_jobs_to_the_next_one(tmp_path: Path) -> None:
    """A stop deletes no record of a job (ENTRY-03, DISP-14, CLEAN-02, JMR-05)."""
    job = waiting_job()
    async with asyncio.timeout(PATIENCE):
        async with (
            running_master(configuration_for(tmp_path)) as one,
            AsyncClient(one.rest_url) as http,
        ):
            await http.submit(job)
        observer = await records_of(tmp_path)
        assert await observer.read(keys.job(job.job_id)) is not None
        assert await observer.read(keys.result(job.job_id)) is None
        await observer.close()
        async with (
            running_master(configuration_for(tmp_path)) as two,
            AsyncClient(two.rest_url) as http,
        ):
            assert not (await http.status(job.job_id)).globally_terminal
            await http.cancel(job.job_id)
            assert await http.wait(job.job_id) is JobStatus.CANCELED


async def test_a_newer_master_joins_and_takes_over_from_the_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rolling upgrade: the job stays known, and the new master reads the older records."""
    job = waiting_job()
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as old:
        one = await old.enter_async_context(running_master(configuration_for(tmp_path, "old")))
        async with AsyncClient(one.rest_url) as client:
            await client.submit(job)
        monkeypatch.setattr(master, "__version__", "99.0.0")
        async with (
            running_master(configuration_for(tmp_path, "new")) as two,
            AsyncClient(f"{two.rest_url},{one.rest_url}") as both,
        ):
            assert not (await both.status(job.job_id)).globally_terminal
            await old.aclose()
            assert not (await both.status(job.job_id)).globally_terminal
            assert (await both.overview()).flink_commit == "stoker-99.0.0"
            await both.cancel(job.job_id)
            assert await both.wait(job.job_id) is JobStatus.CANCELED


def test_a_terminated_master_exits_with_0_and_closes_its_session(tmp_path: Path) -> None:
    """SIGTERM is an orderly end (ENTRY-05, ENTRY-07)."""
    with process_of(tmp_path, "master", "one") as process:
        url_of(tmp_path, "one", process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, (tmp_path / "one.log").read_text()
    assert list((tmp_path / "storage" / "coordinator" / "sessions").iterdir()) == []
    assert (tmp_path / "work" / "one").is_dir()


def test_a_master_that_cannot_start_exits_with_1_and_says_why(tmp_path: Path) -> None:
    """The reason is on standard error (ENTRY-02)."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with process_of(tmp_path, "master", "one", settings={"rest.bind-port": port}) as process:
            assert process.wait(PATIENCE) == 1
    log = (tmp_path / "one.log").read_text()
    assert "Error:" in log
    assert port in log
    assert "Traceback" not in log


async def test_an_idle_master_collects_garbage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits_for_idleness, calls = asyncio.Event(), []

    async def collect_when_idle() -> None:
        waits_for_idleness.set()

    monkeypatch.setattr(master, "collect_garbage_rarely", lambda: calls.append("rarely"))
    monkeypatch.setattr(master, "collect_when_idle", collect_when_idle)
    running = asyncio.create_task(master.run_master(configuration_for(tmp_path)))
    async with asyncio.timeout(PATIENCE):
        await waits_for_idleness.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0
    assert calls == ["rarely"]


async def test_a_master_knows_the_owner_of_a_job_and_records_who_changed_what(
    tmp_path: Path,
) -> None:
    """Both survive the master: the owner with the job's records, the changes in their file."""
    file = TokenFile(tmp_path / "tokens.json")
    for name in ("ana", "bob"):
        sha256 = hash_of(text_of(name, "secret"))
        file.add(Token(id=name, name=name, role=Role.SUBMIT, sha256=sha256, created_ms=0))
    work = tmp_path / "a place, 100%"
    configuration = configuration_for(
        tmp_path,
        **{
            "security.rest.tokens": str(tmp_path / "tokens.json"),
            "process.working-dir": str(work),
        },
    )

    def user(url: str, name: str) -> AsyncClient:
        return AsyncClient(url, ClientOptions(token=text_of(name, "secret")))

    async with (
        asyncio.timeout(PATIENCE),
        running_master(configuration) as one,
        user(one.rest_url, "ana") as ana,
        user(one.rest_url, "bob") as bob,
    ):
        job_id = (await ana.submit(waiting_job())).job_id
        assert [job.owner for job in await ana.jobs(with_owners=True)] == ["ana"]
        assert await bob.jobs() == []
        with pytest.raises(AccessDenied, match="belongs to ana"):
            await bob.cancel(job_id)
    async with (
        asyncio.timeout(PATIENCE),
        running_master(configuration) as two,
        user(two.rest_url, "ana") as ana,
    ):
        assert (await ana.job(job_id)).owner == "ana"
        await ana.cancel(job_id)
    lines = (work / "audit" / "audit.jsonl").read_text().splitlines()
    # A client tries again until the master leads.
    all_entries = [each for line in lines if (each := json.loads(line))["status"] != 503]
    # The masters have found two new tokens, too.
    entries = [each for each in all_entries if each["address"] != "token file"]
    numbers = {(each["master"], each["sequence"]) for each in all_entries}
    assert len(numbers) == len(all_entries)
    assert [(each["caller"], each["action"], each["outcome"]) for each in entries] == [
        ("ana", "POST /jobs", "done"),
        ("bob", "PATCH /jobs/{jobid}", "refused"),
        ("ana", "PATCH /jobs/{jobid}", "done"),
    ]
    assert {each["object"] for each in entries} == {job_id}
