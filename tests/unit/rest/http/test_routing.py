"""From method, path, query and headers to a handler and its arguments."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated, Any

import httpx
import msgspec
import pytest

from stoker.core.errors import CallTimedOut, NoLeader, RemoteError
from stoker.rest.http.asgi import MAX_BODY_BYTES, Request, Response, Stream
from stoker.rest.http.middleware import RestMiddleware
from stoker.rest.http.routing import (
    HeaderParameter,
    PathParameter,
    QueryParameter,
    Route,
    Router,
    delete,
    get,
    post,
    route,
)
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission
from stoker.testing.rest import Master

Limit = Annotated[int | None, QueryParameter(name="max", ge=0, le=10, description="at most")]
Key = Annotated[str | None, HeaderParameter(name="Idempotency-Key")]
Name = Annotated[str, PathParameter(description="names a thing")]


class Answer(msgspec.Struct):
    received: Any


@get("/things", needs=Permission.READ, summary="All things")
async def all_things(limit: Limit = None, deep: bool = False, seconds: float = 1.5) -> Answer:
    return Answer([limit, deep, seconds])


@get("/things/fixed", needs=Permission.READ)
async def fixed_thing() -> Answer:
    return Answer("fixed")


@get("/things/{name}", needs=Permission.READ)
async def thing(name: Name, services: RestServices) -> Answer:
    return Answer([name, services.version])


@get("/things/{name}/parts/{part}", "/parts/{part}", needs=Permission.READ)
async def part(part: str) -> Answer:
    return Answer(part)


@post("/things", needs=Permission.READ, status=202)
async def add_thing(request: Request, key: Key = None) -> Answer:
    return Answer([(await request.body()).decode(), key])


@delete("/things/{name}", needs=Permission.READ)
async def remove_thing(name: str, why: str) -> Answer:
    return Answer([name, why])


@route(("PUT", "PATCH"), "/raw", needs=Permission.READ)
async def raw() -> Response:
    return Response([b"a", b"b"], status=201, media_type="text/plain", headers=[("Location", "x")])


ROUTES = (all_things, fixed_thing, thing, part, add_thing, remove_thing, raw)


def client_of(*routes: Route) -> httpx.AsyncClient:
    app = RestMiddleware(Router(routes or ROUTES), Master().services)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081")


async def answer_to(path: str, method: str = "GET", **more: Any) -> Any:
    async with client_of() as http:
        answer = await http.request(method, path, **more)
    return answer.json().get("received", answer.json())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/things", [None, False, 1.5]),
        ("/things/", [None, False, 1.5]),
        ("/v1/things", [None, False, 1.5]),
        ("/things?max=3&deep=true&seconds=2", [3, True, 2.0]),
        ("/things?max=1&max=2", [2, False, 1.5]),
        ("/things?unknown=1", [None, False, 1.5]),
        (f"/things?x={'y' * 300}&max=4", [4, False, 1.5]),
        ("/things/fixed", "fixed"),
        ("/things/fixed/parts/2", "2"),
        ("/parts/a%20b", "a b"),
        ("/things/a", ["a", Master().services.version]),
    ],
)
async def test_arguments_come_from_the_path_and_the_query(path: str, expected: object) -> None:
    assert await answer_to(path) == expected


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/things?max=11", "parameter max: Expected `int` <= 10"),
        ("/things?max=-1", "parameter max: Expected `int` >= 0"),
        ("/things?max=", "parameter max: Expected `int | null`, got `str`"),
        ("/things?deep=perhaps", "parameter deep: Expected `bool`, got `str`"),
        ("/things?seconds=x", "parameter seconds: Expected `float`, got `str`"),
    ],
)
async def test_a_malformed_parameter_is_refused_with_its_name(path: str, message: str) -> None:
    async with client_of() as http:
        answer = await http.get(path)
    assert answer.status_code == 400
    assert answer.json() == {"errors": [message]}


async def test_a_missing_parameter_is_refused_with_its_name() -> None:
    assert await answer_to("/things/a", "DELETE") == {
        "errors": ["parameter why is missing in the query"]
    }
    assert await answer_to("/things/a?why=old", "DELETE") == ["a", "old"]


async def test_body_and_headers_reach_the_handler() -> None:
    assert await answer_to("/things", "POST", content=b"x") == ["x", None]
    headers = {"idempotency-key": "k"}
    assert await answer_to("/things", "POST", content=b"", headers=headers) == ["", "k"]


async def test_the_response_has_the_status_of_the_route() -> None:
    async with client_of() as http:
        assert (await http.get("/things")).status_code == 200
        assert (await http.post("/things")).status_code == 202


async def test_a_body_that_is_too_large_is_refused_whether_it_declares_its_length_or_not() -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        for _ in range(MAX_BODY_BYTES // 1_000_000 + 1):
            yield b"x" * 1_000_000

    async with client_of() as http:
        for content in (b"x" * (MAX_BODY_BYTES + 1), chunks()):
            answer = await http.post("/things", content=content)
            assert answer.status_code == 413
            assert "10000000 bytes" in answer.json()["errors"][0]


async def test_a_response_that_the_handler_built_is_sent_unchanged() -> None:
    async with client_of() as http:
        for method in ("PUT", "PATCH"):
            answer = await http.request(method, "/raw")
            assert (answer.status_code, answer.text) == (201, "ab")
            assert answer.headers["content-type"] == "text/plain"
            assert answer.headers["content-length"] == "2"
            assert answer.headers["location"] == "x"


@pytest.mark.parametrize("method", ["HEAD", "PUT", "TRACE", "WHATEVER"])
async def test_a_wrong_method_is_answered_like_an_unknown_path(method: str) -> None:
    async with client_of() as http:
        answer = await http.request(method, "/things")
        unknown = await http.request(method, "/nothing")
    assert answer.status_code == unknown.status_code == 404


@pytest.mark.parametrize("path", ["/", "/thing", "/things/a/parts", "/things/a/parts/b/c"])
async def test_a_path_is_found_only_as_a_whole(path: str) -> None:
    async with client_of() as http:
        assert (await http.get(path)).status_code == 404


async def test_options_lists_the_methods_of_a_path() -> None:
    async with client_of() as http:
        answer = await http.options("/things")
    assert (answer.status_code, answer.headers["allow"]) == (204, "GET, OPTIONS, POST")
    assert "content-length" not in answer.headers


def test_two_handlers_for_one_path_are_refused() -> None:
    @get("/things/{other}", needs=Permission.READ)
    async def again(other: str) -> None: ...

    with pytest.raises(ValueError, match="two handlers for GET /things/"):
        Router((*ROUTES, again))


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (NoLeader("nobody leads"), 503),
        (CallTimedOut("late"), 504),
        (RemoteError("broken"), 500),
        (ValueError("x"), 500),
    ],
)
async def test_an_error_of_the_handler_is_answered(failure: Exception, status: int) -> None:
    @get("/fails", needs=Permission.READ)
    async def fails() -> None:
        raise failure

    async with client_of(fails) as http:
        answer = await http.get("/fails")
    assert answer.status_code == status
    (message,) = answer.json()["errors"]
    assert ("internal error" in message) == (status == 500)


class Endless:
    """A stream without an end, which records whether its generator was closed."""

    def __init__(self) -> None:
        self.closed = False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x"
        finally:
            self.closed = True

    async def send(
        self, send: Callable[[Any], Awaitable[None]], receive: Callable[[], Any]
    ) -> None:
        await Stream(self.chunks(), media_type="text/plain").send(receive, send)


async def test_a_stream_ends_when_the_client_disconnects() -> None:
    sent: list[Any] = []
    gone = asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) > 3:
            gone.set()
        await asyncio.sleep(0)

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    stream = Endless()
    await stream.send(send, receive)
    assert stream.closed
    assert sent[0]["type"] == "http.response.start"


async def test_a_stream_that_cannot_be_sent_fails_and_is_closed() -> None:
    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError("the connection is broken")

    async def receive() -> Any:
        await asyncio.Event().wait()

    stream = Endless()
    with pytest.raises(OSError, match="broken"):
        await stream.send(send, receive)
    assert stream.closed
