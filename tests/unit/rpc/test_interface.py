from typing import Protocol

import pytest

from stoker.rpc.interface import read_interface

LABELS = {"a": "b"}


class Reading(Protocol):
    async def read(self, key: str) -> bytes: ...


class Writing(Reading, Protocol):
    async def write(self, key: str, value: bytes, *, labels: dict[str, str] = LABELS) -> None: ...


def test_a_gateway_has_its_own_and_its_inherited_methods():
    interface = read_interface(Writing)
    assert interface.names == {"Reading", "Writing"}
    assert set(interface.methods) == {"read", "write"}
    assert interface.methods["read"].result is bytes
    assert interface.methods["read"].qualified_name == "Writing.read"
    assert read_interface(Writing) is interface


def test_arguments_are_bound_by_position_name_and_default():
    write = read_interface(Writing).methods["write"]
    bound = write.bind(("k",), {"value": b"v"})
    assert (bound.key, bound.value, bound.labels) == ("k", b"v", LABELS)
    with pytest.raises(TypeError, match="missing a required argument: 'value'"):
        write.bind(("k",), {})
    with pytest.raises(TypeError, match="too many positional"):
        write.bind(("k", b"v", {}), {})


class NotAsync(Protocol):
    def read(self) -> int: ...


class NoTypes(Protocol):
    async def read(self, key) -> int: ...


class NoResult(Protocol):
    async def read(self, key: int): ...


class Variable(Protocol):
    async def read(self, *keys: int) -> int: ...


class Empty(Protocol):
    pass


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (NotAsync, r"NotAsync\.read must be `async def`"),
        (NoTypes, r"NoTypes\.read must say the type of key"),
        (NoResult, r"NoResult\.read must say the type of its result"),
        (Variable, r"Variable\.read must name each of its parameters"),
        (Empty, "not a Protocol"),
        (int, "not a Protocol"),
    ],
)
def test_a_class_that_cannot_be_a_gateway_is_refused_with_the_reason(wrong, words):
    with pytest.raises(TypeError, match=words):
        read_interface(wrong)
