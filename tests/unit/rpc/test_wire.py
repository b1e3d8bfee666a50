from typing import Protocol

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidInput, RemoteError, TooLarge
from stoker.core.values import FencingToken, Value
from stoker.rpc.interface import read_interface
from stoker.rpc.wire import (
    Call,
    decode_arguments,
    decode_reply,
    decode_request,
    encode_call,
    encode_error,
    encode_result,
    split_address,
)


class Point(Value):
    x: int
    label: str | None = None


class Gateway(Protocol):
    async def draw(
        self, points: list[Point], by_name: dict[str, bytes], scale: float = 1.0
    ) -> tuple[Point, ...]: ...


DRAW = read_interface(Gateway).methods["draw"]
LIMIT = 1_000_000

texts = st.text(st.characters(exclude_categories=["Cs"]))
points = st.builds(Point, x=st.integers(-(2**63), 2**63 - 1), label=st.none() | texts)
tokens = st.none() | st.builds(FencingToken, epoch=st.integers(0, 2**40), session=texts)


def encode(arguments, token=None, limit=LIMIT):
    return encode_call(DRAW, arguments, endpoint="e", token=token, timeout_seconds=2.5, limit=limit)


@given(st.lists(points), st.dictionaries(texts, st.binary()), st.floats(allow_nan=False), tokens)
def test_a_call_arrives_as_it_was_made(drawn, by_name, scale, token):
    call = decode_request(encode(DRAW.bind((drawn, by_name), {"scale": scale}), token))
    assert isinstance(call, Call)
    assert (call.endpoint, call.method, call.token) == ("e", "draw", token)
    assert call.timeout_seconds == 2.5
    assert decode_arguments(DRAW, call) == {"points": drawn, "by_name": by_name, "scale": scale}


@given(st.lists(points).map(tuple))
def test_a_result_arrives_as_it_was_returned(result):
    assert decode_reply(encode_result(result, "draw", LIMIT), DRAW.result, "draw") == result


@given(st.integers(0, 3000), st.integers(500, 2500))
def test_a_frame_above_the_limit_is_refused(size, limit):
    """A frame of exactly the limit is accepted (X-RPC-04)."""
    arguments = DRAW.bind(([], {"a": b"x" * size}), {})
    if len(encode(arguments)) <= limit:
        encode(arguments, limit=limit)
    else:
        with pytest.raises(TooLarge, match=r"request of Gateway\.draw"):
            encode(arguments, limit=limit)

    result = (Point(x=1, label="y" * size),)
    answer = encode_result(result, "draw", limit)
    assert len(answer) <= limit
    if len(encode_result(result, "draw", LIMIT)) <= limit:
        assert decode_reply(answer, DRAW.result, "draw") == result
    else:
        with pytest.raises(TooLarge, match="answer of draw"):
            decode_reply(answer, DRAW.result, "draw")


def test_a_value_of_a_wrong_type_is_an_error_that_names_the_method():
    call = decode_request(encode(DRAW.bind(([Point(x=1)], {"a": "text"}), {})))
    with pytest.raises(TypeError, match=r"Gateway\.draw was called with a wrong value.*by_name"):
        decode_arguments(DRAW, call)
    with pytest.raises(RemoteError, match="draw answered with a wrong value"):
        decode_reply(encode_result("text", "draw", LIMIT), DRAW.result, "draw")
    with pytest.raises(TypeError, match="the result of draw cannot be sent"):
        decode_reply(encode_result(object(), "draw", LIMIT), DRAW.result, "draw")


@pytest.mark.parametrize("reply", [b"", b"\xc1", msgspec.msgpack.encode({"type": "later"})])
def test_a_malformed_reply_is_a_remote_error(reply):
    with pytest.raises(RemoteError, match="the answer of draw cannot be understood"):
        decode_reply(reply, DRAW.result, "draw")


def test_an_error_that_cannot_be_sent_arrives_as_its_summary():
    for error in (ValueError("\ud800"), ValueError(2**70), ValueError("x" * LIMIT)):
        with pytest.raises(RemoteError, match="ValueError"):
            decode_reply(encode_error(error, 5000), None, "draw")
    for error in (TooLarge("m", size=2**70), TooLarge("m" * LIMIT)):
        with pytest.raises(TooLarge, match="m"):
            decode_reply(encode_error(error, 5000), None, "draw")


def test_an_address_is_a_service_and_a_name():
    assert split_address("grpc://h:1/a/b") == ("grpc://h:1", "a/b")
    assert split_address("mem://m/jobmaster_1") == ("mem://m", "jobmaster_1")
    for wrong in ("", "x", "grpc://h:1", "grpc://h:1/", "grpc:///x", "://h/x"):
        with pytest.raises(InvalidInput, match="not the address of an endpoint"):
            split_address(wrong)
