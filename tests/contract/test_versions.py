"""Clients and masters of different versions, and clients whose token is over."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contract.rest_cluster import NOW, RUNNING, Master, new_graph, parts
from stoker.api.jobs import JobExecutionResult
from stoker.api.savepoints import outcome_of
from stoker.client import calls
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import AccessDenied
from stoker.core.ids import JobId
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of

FIRST_RELEASE = Path(__file__).parents[1] / "compatibility" / "0.1" / "storage"


async def test_a_graph_of_the_first_release_is_accepted() -> None:
    """Of a client that knows nothing of what was added since."""
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


def with_news(value: Any) -> Any:
    """What a later master might say: a field more, wherever there are any."""
    if isinstance(value, dict):
        return {key: with_news(each) for key, each in value.items()} | {"news": [1, {"a": None}]}
    if isinstance(value, list):
        return [with_news(each) for each in value]
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
    call: calls.Call[Any], path: str
) -> None:
    async with Master().in_process() as http:
        answer = (await http.get(path)).json()
    known = call.read(msgspec.json.encode(answer))
    assert call.read(msgspec.json.encode(with_news(answer))) == known


def test_a_client_reads_the_answers_of_an_earlier_master() -> None:
    """Which did not write failures for Flink's client, and told of no number."""
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


async def test_an_expired_token_is_told_to_its_client(tmp_path: Path) -> None:
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
