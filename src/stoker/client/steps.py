"""Client operations written once, for programs with an event loop and without.

An operation is a generator. It yields what it needs (a call to a master, a pause) and is sent the
answer, so it contains no I/O and no `await`. BlockingClient and AsyncClient each drive such
generators with their own HTTP library, and `Operation` turns one definition into a method of both:
on a blocking object it returns the value, on an asynchronous one an awaitable of it. A type checker
sees the right signature on each.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload
from urllib.parse import urlencode

from stoker.client.options import ClientOptions
from stoker.client.submission import SubmissionBody

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)
class RestCall(Generic[T]):
    """One request to a master. `answer = yield from call` makes it a step of an operation."""

    method: str
    path: str
    read: Callable[[bytes], T]
    """Decodes the body of a successful answer."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: SubmissionBody | None = None
    waits: float = 0.0
    """Seconds that the answer may take in addition to the usual timeout."""

    @property
    def target(self) -> str:
        return f"/v1{self.path}?{urlencode(self.query)}" if self.query else f"/v1{self.path}"

    def __iter__(self) -> "Generator[RestCall[T], Any, T]":
        answer: T = yield self
        return answer


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class ClientSettings:
    options: ClientOptions
    hold_seconds: float
    """How long a master may delay the answer to a status request until the job changes."""


Step = RestCall[Any] | Pause | type[ClientSettings]
"""What an operation yields. For the class ClientSettings it is sent the client's settings."""
Steps = Generator[Step, Any, T]
"""An operation that returns a T."""
Request = RestCall[T] | Steps[T]


def client_settings() -> Steps[ClientSettings]:
    settings: ClientSettings = yield ClientSettings
    return settings


class Blocking(ABC):
    """An object whose operations return their values."""

    @abstractmethod
    def run(self, request: Request[T]) -> T:
        """The answer to a call of `stoker.client.calls` or the outcome of an operation."""


class Asynchronous(ABC):
    """An object whose operations return awaitables."""

    @abstractmethod
    async def run(self, request: Request[T]) -> T:
        """The answer to a call of `stoker.client.calls` or the outcome of an operation."""


class Operation(Generic[P, T]):
    """Decorator: a method that returns a Request becomes one that runs it."""

    def __init__(self, request: Callable[Concatenate[Any, P], Request[T]]) -> None:
        self._request = request
        self.__doc__ = request.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: Blocking, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(
        self, instance: Asynchronous, owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        # The class has the plain function with its signature, for help() and tests.
        method = self._request.__get__(instance, owner)
        if instance is None:
            return method

        @functools.wraps(method)
        def run(*args: Any, **kwargs: Any) -> Any:
            return instance.run(method(*args, **kwargs))

        return run


def operation_of(request: Callable[P, Request[T]]) -> Operation[P, T]:
    """The function as a method of both clients. It uses nothing of the object."""

    @functools.wraps(request)
    def method(_client: object, /, *args: P.args, **kwargs: P.kwargs) -> Request[T]:
        return request(*args, **kwargs)

    return Operation(method)
