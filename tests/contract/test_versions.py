"""Clients and masters of different versions, and clients whose token has expired."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker import __version__
from stoker.api.jobs import JobExecutionResult
from stoker.api.operations import outcome_of
from stoker.api.versions import API_VERSION, explain_refused_client, explain_refused_server
from stoker.client import calls
from stoker.client.asynchronous import AsyncClient
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import AccessDenied, InvalidInput
from stoker.core.ids import JobId
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.testing.rest import Master, parts
from stoker.testing.sample_jobs import NOW, RUNNING, new_graph

FIRST_RELEASE = Path(__file__).parents[1] / "compatibility" / "0.1" / "storage"


async def test_a_graph_of_the_first_release_is_accepted() -> None:
    """A client of that release sends no field that was added later."""
    paths = sorted(FIRST_RELEASE.glob("jobs/*/graph/*.json"))
    graphs: list[dict[str, Any]] = [msgspec.json.decode(path.read_bytes()) for path in paths]
    pipelines = [each for each in graphs if "sink" in str(each["vertices"])]
    assert pipelines
    for graph in pipelines:
        graph |= {"artifacts": [], "job_id": "c" * 32}
        master = Master()
        async with master.in_process() as http:
            answer = await http.post("/jobs", files=parts(msgspec.json.encode(graph)))
        assert answer.status_code == 202, answer.text
        assert list(master.dispatcher.graphs) == [JobId("c" * 32)]


async def test_a_graph_of_a_later_version_is_refused_with_both_numbers() -> None:
    async with Master().in_process() as http:
        answer = await http.post("/jobs", files=parts(new_graph(version=2)))
    assert answer.status_code == 400
    assert "has version 2, this master reads 1" in answer.json()["errors"][0]


def with_unknown_fields(value: Any) -> Any:
    """An answer as a later master might send it: with an additional field in every object."""
    if isinstance(value, dict):
        return {key: with_unknown_fields(each) for key, each in value.items()} | {
            "unknown": [1, {"a": None}]
        }
    if isinstance(value, list):
        return [with_unknown_fields(each) for each in value]
    return value


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (calls.jobs(), "/jobs/overview"),
        (calls.overview(), "/overview"),
        (calls.status(RUNNING), f"/jobs/{RUNNING}/status"),
    ],
)
async def test_a_client_reads_the_answers_of_a_later_master(
    call: calls.RestCall[Any], path: str
) -> None:
    async with Master().in_process() as http:
        answer = (await http.get(path)).json()
    known = call.read(msgspec.json.encode(answer))
    assert call.read(msgspec.json.encode(with_unknown_fields(answer))) == known


def test_a_client_reads_the_answers_of_an_earlier_master() -> None:
    """An earlier master sends neither failures for Flink's client nor a checkpoint number."""
    cause = {"class": "E", "stack-trace": "E: no"}
    ended = {
        "id": RUNNING,
        "name": "n",
        "application-status": "FAILED",
        "net-runtime": 1,
        "failure-cause": cause,
        "application-id": RUNNING,
        "start-time": 1,
        "end-time": 2,
    }
    read = msgspec.convert(ended, JobExecutionResult)
    assert read.failure_cause.stack_trace == "E: no"  # type: ignore[union-attr]
    outcome = outcome_of({"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}})
    assert (outcome.failure, outcome.number) == ("no", None)


@pytest.mark.parametrize(
    "header", [None, "", "0.1.0 api/1", "9.9.9 api/7", "Flink", "x api/-1", "\xff" * 300]
)
async def test_compatible_clients_are_served_and_get_the_masters_version(
    header: str | None,
) -> None:
    """Clients without the header are served too: Flink's tools, curl, and the oldest clients."""
    headers = {} if header is None else {"Stoker-Client": header.encode("latin-1")}
    async with Master().in_process() as http:
        answer = await http.get("/jobs", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["stoker-server"] == "0.1.0 api/1"


async def test_a_client_that_is_too_old_gets_both_versions_and_a_remedy() -> None:
    async with Master().in_process() as http:
        answer = await http.get("/jobs", headers={"Stoker-Client": "0.0.7 api/0"})
    assert answer.status_code == 400
    (reason,) = answer.json()["errors"]
    assert "version 0.0.7 (API 0)" in reason
    assert "install stoker 0.1.0 where the client runs" in reason


@pytest.mark.parametrize("kind", ["blocking", "async"])
async def test_a_client_refuses_a_master_that_is_too_old_for_it(kind: str) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        body = b'{"jobs":[]}'
        head = b"HTTP/1.1 200 OK\r\nStoker-Server: 0.0.7 api/0\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(InvalidInput, match=r"the master is of version 0\.0\.7 \(API 0\)"):
            if kind == "blocking":
                await asyncio.to_thread(BlockingClient(url).jobs)
            else:
                async with AsyncClient(url) as client:
                    await client.jobs()
    (request,) = asked
    assert f"stoker-client: {__version__} api/{API_VERSION}".encode() in request.lower()


@given(st.integers(0, 9), st.integers(0, 9))
def test_all_versions_from_the_oldest_supported_one_on_are_compatible(
    api: int, oldest: int
) -> None:
    for refused in (explain_refused_client, explain_refused_server):
        reason = refused(f"1.2.3 api/{api}", "4.5.6", oldest)
        assert (reason is None) == (api >= oldest)
        assert reason is None or ("1.2.3" in reason and "4.5.6" in reason)


async def test_a_client_learns_that_its_token_has_expired(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    text = text_of("old", "secret")
    tokens.add(
        Token(
            id="old",
            name="old",
            role=Role.OPERATE,
            sha256=hash_of(text),
            created_ms=0,
            expires_ms=NOW - 1,
        )
    )
    async with Master(tokens=tokens).serving() as url:
        client = BlockingClient(url, ClientOptions(token=text))
        with pytest.raises(AccessDenied, match="has expired"):
            await asyncio.to_thread(client.jobs)
