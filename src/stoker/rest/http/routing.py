"""Routes of the REST API: a method and a path lead to a handler, its annotations to its arguments.

Clients ask for the state of jobs all the time, on the event loop that also renews leases and
heartbeats, so the way from a request to its handler has to be short; and an API of a hundred
operations needs one description of each, from which both the parsing and the OpenAPI document
follow. So a handler is an async function whose annotations describe its operation completely:

    @get(
        "/jobs/{jobid}/exceptions",
        needs=Permission.QUERY,
        summary="Failures of a job, newest first",
    )
    async def exceptions(jobid: JobIdText, services: RestServices, limit: Limit = 20) -> Exceptions

A parameter that the path names comes from the path, as text; `RestServices` and `Request` are
passed as they are; a parameter with a `HeaderParameter` comes from a header, and all others come
from the query. msgspec converts the texts of headers and of the query, and encodes the answer.

The table is compiled once into a tree of path segments, so the time to find a handler does not grow
with the number of routes. A fixed segment wins over a parameter, whatever the order of the table.

A request is resolved to a `Target` once, before anything else is decided about it. The permission
that the caller needs belongs to the route, so no spelling of a path (a slash at its end, two
slashes, an escaped letter) leads to a handler without the check of that handler's permission.

Invariant: there is one way from a request to its handler. Two handlers for one method and path, and
a route without a permission, are errors at start-up, and every exception of a handler becomes a
response here. A method that a path does not have is answered with 404, as in Flink.
docs/decisions/rest-router.md says why this is no web framework.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from stoker.core.errors import InvalidInput
from stoker.rest.http.asgi import (
    JSON,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    Stream,
    parse_query_string,
)
from stoker.rest.http.errors import any_error_answer, not_found, send_error
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

Handler = Callable[..., Awaitable[Any]]

PREFIX = "v1"
"""First segment of the path that clients may leave out."""

_CACHED_PATH_LETTERS = 200
_CACHED_QUERY_BYTES = 200
"""Longest query whose arguments are cached: frequent requests mostly have the same query."""
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, kw_only=True)
class _TextParameter:
    name: str | None = None
    """Name in the request; None for the name of the argument."""
    description: str | None = None
    ge: float | None = None
    le: float | None = None


class PathParameter(_TextParameter):
    """Describes a parameter of the path, as in `Annotated[str, PathParameter(...)]`."""


class QueryParameter(_TextParameter):
    """Describes a parameter of the query, as in `Annotated[int, QueryParameter(...)]`."""


class HeaderParameter(_TextParameter):
    """Takes an argument from a header, as in `Annotated[str | None, HeaderParameter(...)]`."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    argument: str
    name: str
    place: Literal["path", "query", "header"]
    type: Any
    description: str | None
    default: Any = inspect.Parameter.empty

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty

    def convert(self, text: str) -> Any:
        try:
            return msgspec.convert(text, self.type, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"parameter {self.name}: {error}") from error


@dataclass(frozen=True, kw_only=True, eq=False)
class Route:
    """A handler, the methods and paths that lead to it, and its part of the OpenAPI document."""

    handler: Handler
    methods: tuple[str, ...]
    paths: tuple[str, ...]
    needs: Permission
    """Permission of the caller; each route states its own."""
    status: int = 200
    summary: str = ""
    media_type: str = JSON
    answer: Any = None
    """Type of the response body if the handler encodes it; None for the return annotation."""
    body: Any = None
    """The request body in the document: a type, or an OpenAPI description."""
    other_statuses: Mapping[int, str] = field(default_factory=dict)
    """Further statuses of this operation, with their meanings; common errors need no entry."""

    @cached_property
    def answer_type(self) -> Any:
        return self.answer or get_type_hints(self.handler)["return"]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters that come as text, in the order of the handler's arguments."""
        return tuple(each for each in self._arguments.values() if isinstance(each, Parameter))

    @cached_property
    def _arguments(self) -> dict[str, Parameter | type]:
        hints = get_type_hints(self.handler, include_extras=True)
        in_path = {name for path in self.paths for name in path_parameters(path)}
        return {
            name: _argument(name, hints[name], declared.default, in_path)
            for name, declared in inspect.signature(self.handler).parameters.items()
        }

    @cached_property
    def _context_arguments(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the arguments for the services, and of those for the request."""
        kinds = self._arguments.items()
        return (
            tuple(name for name, kind in kinds if kind is RestServices),
            tuple(name for name, kind in kinds if kind is Request),
        )

    @cached_property
    def _headers(self) -> tuple[Parameter, ...]:
        return tuple(each for each in self.parameters if each.place == "header")

    def path_arguments(self, path: str) -> tuple[str, ...]:
        """The argument of each parameter in this path; empty if the handler has none for it."""
        known = {each.name: each.argument for each in self.parameters if each.place == "path"}
        return tuple(known.get(name, "") for name in path_parameters(path))

    async def respond(
        self, scope: Scope, receive: Receive, in_path: Mapping[str, str], services: RestServices
    ) -> Response | Stream:
        query: bytes = scope["query_string"]
        if len(query) <= _CACHED_QUERY_BYTES:
            arguments = {**_cached_query_arguments(self, query), **in_path}
        else:
            arguments = {**self.query_arguments(query), **in_path}
        takes_services, takes_request = self._context_arguments
        for name in takes_services:
            arguments[name] = services
        if takes_request or self._headers:
            request = Request(scope, receive)
            for name in takes_request:
                arguments[name] = request
            for parameter in self._headers:
                if (value := request.headers.get(parameter.name.lower())) is not None:
                    arguments[parameter.argument] = parameter.convert(value)
        answer = await self.handler(**arguments)
        if isinstance(answer, Response | Stream):
            return answer
        return Response(_encode(answer), status=self.status)

    def query_arguments(self, query: bytes) -> dict[str, Any]:
        texts = parse_query_string(query) if query else {}
        arguments = {}
        for parameter in self.parameters:
            if parameter.place != "query":
                continue
            text = texts.get(parameter.name)
            if text is not None:
                arguments[parameter.argument] = parameter.convert(text)
            elif parameter.is_required:
                raise InvalidInput(f"parameter {parameter.name} is missing in the query")
        return arguments


@lru_cache(maxsize=512)
def _cached_query_arguments(route: Route, query: bytes) -> dict[str, Any]:
    return route.query_arguments(query)


def _argument(name: str, hint: Any, default: Any, in_path: set[str]) -> Parameter | type:
    if hint is RestServices or hint is Request:
        return hint
    known = _TextParameter()
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        known = next((each for each in extras if isinstance(each, _TextParameter)), known)
    place: Literal["path", "query", "header"] = "path" if name in in_path else "query"
    if isinstance(known, HeaderParameter):
        place = "header"
    if known.ge is not None or known.le is not None:
        hint = _bounded(hint, msgspec.Meta(ge=known.ge, le=known.le))
    return Parameter(
        argument=name,
        name=known.name or name,
        place=place,
        type=hint,
        description=known.description,
        default=default,
    )


def _bounded(hint: Any, bounds: msgspec.Meta) -> Any:
    """Puts the bounds at the number, since msgspec accepts none for a union."""
    members = get_args(hint)
    return Annotated[members[0], bounds] | None if members else Annotated[hint, bounds]


def path_parameters(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def route(
    methods: Iterable[str],
    *paths: str,
    needs: Permission,
    status: int = 200,
    summary: str = "",
    media_type: str = JSON,
    answer: Any = None,
    body: Any = None,
    other_statuses: Mapping[int, str] | None = None,
) -> Callable[[Handler], Route]:
    def declare(handler: Handler) -> Route:
        return Route(
            handler=handler,
            methods=tuple(methods),
            paths=paths,
            needs=needs,
            status=status,
            summary=summary,
            media_type=media_type,
            answer=answer,
            body=body,
            other_statuses=other_statuses or {},
        )

    return declare


get = partial(route, ("GET",))
post = partial(route, ("POST",))
put = partial(route, ("PUT",))
patch = partial(route, ("PATCH",))
delete = partial(route, ("DELETE",))


class _Node:
    """A path up to one of its segments."""

    def __init__(self) -> None:
        self.fixed: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.routes: dict[str, tuple[Route, Sequence[str]]] = {}
        """By method: the route, and the argument of each parameter in the path."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a request leads. What is decided about a request is decided by its target."""

    path: str
    """The path in its only spelling: unescaped, without the prefix and without empty segments."""
    methods: Mapping[str, tuple[Route, Sequence[str]]]
    """The methods of this path; none for an unknown path."""
    route: Route | None
    """None for an unknown path, and for a method that the path does not have."""
    arguments: Mapping[str, str]
    """Arguments of the handler that come from the path."""

    @property
    def needs(self) -> Permission:
        """Permission of the caller. Any token may learn that there is no such operation."""
        return Permission.QUERY if self.route is None else self.route.needs


class Router:
    """Finds the target of a request, and calls its handler."""

    def __init__(self, routes: Iterable[Route]) -> None:
        """Raises ValueError for two routes with the same method and path."""
        self._root = _Node()
        # Clients ask for the same jobs again and again.
        self._find_cached = lru_cache(maxsize=1024)(self._find)
        for each in routes:
            for path in each.paths:
                self._add(each, path)

    def _add(self, route: Route, path: str) -> None:
        node = self._root
        for segment in filter(None, path.split("/")):
            if segment.startswith("{"):
                node.parameter = node = node.parameter or _Node()
            else:
                node = node.fixed.setdefault(segment, _Node())
        for method in route.methods:
            if method in node.routes:
                raise ValueError(f"two handlers for {method} {path}")
            node.routes[method] = (route, route.path_arguments(path))

    def find(self, method: str, path: str) -> Target:
        """The target of a request with this unescaped path."""
        if len(path) <= _CACHED_PATH_LETTERS:
            return self._find_cached(method, path)
        return self._find(method, path)

    def _find(self, method: str, path: str) -> Target:
        segments = [part for part in path.split("/") if part]
        if segments and segments[0] == PREFIX:
            del segments[0]
        values: list[str] = []
        node = _find(self._root, segments, 0, values) or _NO_ROUTE
        route, names = node.routes.get(method, (None, ()))
        arguments = {name: text for name, text in zip(names, values, strict=False) if name}
        return Target(
            path="/" + "/".join(segments), methods=node.routes, route=route, arguments=arguments
        )

    async def respond(
        self, target: Target, services: RestServices, scope: Scope, receive: Receive, send: Send
    ) -> None:
        method, path, route = scope["method"], target.path, target.route
        if route is None:
            if method == "OPTIONS" and target.methods:
                await _allowed_methods(target.methods).send(receive, send)
            else:
                await send_error(not_found(method, path), send)
            return
        reached = {**scope, "path": path}
        try:
            response = await route.respond(reached, receive, target.arguments, services)
        # No exception of a handler passes this border. An unforeseen one is logged under an id.
        except Exception as error:
            await send_error(any_error_answer(error, method, path, services.ids), send)
        else:
            await response.send(receive, send)


def _find(node: _Node, segments: list[str], at: int, values: list[str]) -> _Node | None:
    """The node of a path, if any; appends its parameters to `values`. Prefers fixed segments."""
    if at == len(segments):
        return node if node.routes else None
    segment = segments[at]
    fixed = node.fixed.get(segment)
    if fixed is not None and (found := _find(fixed, segments, at + 1, values)) is not None:
        return found
    if node.parameter is None:
        return None
    values.append(segment)
    found = _find(node.parameter, segments, at + 1, values)
    if found is None:
        values.pop()
    return found


_NO_ROUTE = _Node()


def _allowed_methods(methods: Iterable[str]) -> Response:
    allowed = ", ".join(sorted({*methods, "OPTIONS"}))
    return Response(b"", status=204, media_type=None, headers=[("Allow", allowed)])
